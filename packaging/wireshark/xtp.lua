-- XTP 4.0 over UDP and Ethernet, for Wireshark and tshark:
--
--   tshark -X lua_script:xtp.lua -r capture.pcapng
--   cp xtp.lua ~/.local/lib/wireshark/plugins/
--
-- Wireshark dissects XTP behind IP (protocol 36). This gives its dissector the frames with XTP's EtherType, those that
-- `towpath sim run --pcap` writes among them, and the datagrams of UDP that are packets of XTP: the version and the
-- format are known, and the stated lengths fill the datagram. XTP 3.x has no dissector.

local xtp = DissectorTable.get("ip.proto"):get_dissector(36)
DissectorTable.get("ethertype"):add(0x817d, xtp)

local over_udp = Proto("xtp_udp", "XTP over UDP")

-- Version 1 in the upper three bits, and a format: DATA, CNTL, FIRST, ECNTL, TCNTL, JCNTL, DIAG.
local types = { [0x20] = true, [0x21] = true, [0x22] = true, [0x23] = true, [0x25] = true, [0x27] = true, [0x28] = true }

-- Octets of the packet at an offset of the datagram; nil if there is none.
local function packet_len(buffer, at)
    if buffer:len() - at < 32 or not types[buffer(at + 11, 1):uint()] then
        return nil
    end
    local len = 32 + buffer(at + 12, 4):uint()
    return at + len <= buffer:len() and len or nil
end

-- A datagram that the kernel cuts later, where its interface can, has several packets.
over_udp:register_heuristic("udp", function(buffer, info, tree)
    local at = 0
    while at < buffer:len() do
        local len = packet_len(buffer, at)
        if not len then
            return false
        end
        at = at + len
    end
    at = 0
    while at < buffer:len() do
        local len = packet_len(buffer, at)
        xtp:call(buffer(at, len):tvb(), info, tree)
        at = at + len
    end
    return at > 0
end)
