// Senders and receivers of UDP on one ns-3 CSMA channel: the peer of `cargo xtask bench sim`.
//
// usage: csma PAIRS MESSAGES BYTES MEAN_US SEED
//
// Stations 0 .. PAIRS-1 send; each message comes up at one of them, all alike, an exponential time
// after the last, and goes to one of the other PAIRS stations, which answers with 24 octets 10 ms
// later, as `bare` does. The last line says how many packets arrived, how long the run took on the
// wall, how much time was simulated, and how ns-3 was built.

#include "ns3/core-module.h"
#include "ns3/csma-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/version.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace ns3;

static uint64_t arrived = 0;

static void Answer(Ptr<Socket> socket, Address to)
{
    socket->SendTo(Create<Packet>(24), 0, to);
}

static void Receive(Ptr<Socket> socket)
{
    Address from;
    while (Ptr<Packet> packet = socket->RecvFrom(from))
    {
        arrived += 1;
        if (packet->GetSize() > 24)
        {
            Simulator::Schedule(MilliSeconds(10), &Answer, socket, from);
        }
    }
}

struct Source
{
    std::vector<Ptr<Socket>> senders;
    std::vector<InetSocketAddress> receivers;
    Ptr<ExponentialRandomVariable> interval;
    Ptr<UniformRandomVariable> choice;
    uint64_t left;
    uint32_t bytes;

    void Next()
    {
        if (left == 0)
        {
            return;
        }
        left -= 1;
        uint32_t from = choice->GetInteger(0, senders.size() - 1);
        uint32_t to = choice->GetInteger(0, receivers.size() - 1);
        senders[from]->SendTo(Create<Packet>(bytes), 0, receivers[to]);
        Simulator::Schedule(MicroSeconds(interval->GetValue()), &Source::Next, this);
    }
};

int main(int argc, char **argv)
{
    if (argc != 6)
    {
        std::fprintf(stderr, "usage: csma PAIRS MESSAGES BYTES MEAN_US SEED\n");
        return 2;
    }
    uint32_t pairs = std::atoi(argv[1]);
    RngSeedManager::SetSeed(std::atoi(argv[5]));

    NodeContainer nodes;
    nodes.Create(2 * pairs);
    CsmaHelper csma;
    csma.SetChannelAttribute("DataRate", DataRateValue(DataRate("10Mbps")));
    csma.SetChannelAttribute("Delay", TimeValue(NanoSeconds(1150)));
    NetDeviceContainer devices = csma.Install(nodes);
    InternetStackHelper internet;
    internet.SetIpv6StackInstall(false);
    internet.Install(nodes);
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.1.0.0", "255.255.0.0");
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);

    Source source;
    source.left = std::strtoull(argv[2], nullptr, 10);
    source.bytes = std::atoi(argv[3]);
    source.interval = CreateObject<ExponentialRandomVariable>();
    source.interval->SetAttribute("Mean", DoubleValue(std::atof(argv[4])));
    source.choice = CreateObject<UniformRandomVariable>();
    TypeId udp = TypeId::LookupByName("ns3::UdpSocketFactory");
    for (uint32_t i = 0; i < pairs; ++i)
    {
        source.senders.push_back(Socket::CreateSocket(nodes.Get(i), udp));
        source.senders.back()->Bind();
        source.senders.back()->SetRecvCallback(MakeCallback(&Receive));
        Ptr<Socket> sink = Socket::CreateSocket(nodes.Get(pairs + i), udp);
        sink->Bind(InetSocketAddress(Ipv4Address::GetAny(), 9));
        sink->SetRecvCallback(MakeCallback(&Receive));
        source.receivers.push_back(InetSocketAddress(interfaces.GetAddress(pairs + i), 9));
    }
    Simulator::Schedule(Seconds(0), &Source::Next, &source);

    auto began = std::chrono::steady_clock::now();
    Simulator::Run();
    std::chrono::duration<double> wall = std::chrono::steady_clock::now() - began;
    double simulated = Simulator::Now().GetSeconds();
    Simulator::Destroy();
    std::printf("%llu %.6f %.6f %s\n", (unsigned long long)arrived, wall.count(), simulated,
                Version::BuildProfile().c_str());
    return 0;
}
