-- VMTP (RFC 1045) for Wireshark and tshark, which have no dissector of their own: over IP protocol 81, EtherType 0x805B, and UDP.
--
--   tshark -X lua_script:packaging/wireshark/vmtp.lua -Y vmtp -r race.pcapng
--
-- Over UDP there is no port of its own: a datagram is taken for VMTP if all that is fixed in a header is right and the length in it
-- is that of the datagram. Datagrams that were captured before the kernel cut them into packets hold several; all are shown.

local vmtp = Proto("vmtp", "Versatile Message Transaction Protocol")

local HEADER_LEN = 64
local CHECK_LEN = 4
local PACKET_MIN = HEADER_LEN + CHECK_LEN

-- RFC 1045, section III: standard codes of Responses.
local CODES = {
    [0] = "OK", [1] = "RETRY", [2] = "RETRY_ALL", [3] = "BUSY", [4] = "NONEXISTENT_ENTITY", [5] = "ENTITY_MIGRATED",
    [6] = "NO_PERMISSION", [7] = "NOT_AWAITING_MSG", [8] = "VMTP_ERROR", [9] = "MSGTRANS_OVERFLOW",
    [10] = "BAD_TRANSACTION_ID", [11] = "STREAMING_NOT_SUPPORTED", [12] = "NO_RUN_RECORD", [13] = "RETRANS_TIMEOUT",
    [14] = "USER_TIMEOUT", [15] = "RESPONSE_DISCARDED", [16] = "SECURITY_NOT_SUPPORTED", [17] = "BAD_REPLY_SEGMENT",
}

local f = {
    client = ProtoField.uint64("vmtp.client", "Client", base.HEX),
    version = ProtoField.uint16("vmtp.version", "Version", base.DEC, nil, 0xe000),
    domain = ProtoField.uint16("vmtp.domain", "Domain", base.DEC, nil, 0x1fff),
    hco = ProtoField.bool("vmtp.hco", "Check of the header only (HCO)", 16, nil, 0x8000),
    epg = ProtoField.bool("vmtp.epg", "Encrypted (EPG)", 16, nil, 0x4000),
    mpg = ProtoField.bool("vmtp.mpg", "To a group (MPG)", 16, nil, 0x2000),
    words = ProtoField.uint16("vmtp.length", "Words of segment data", base.DEC, nil, 0x1fff),
    response = ProtoField.bool("vmtp.response", "Response", 32, nil, 0x00000001),
    apg = ProtoField.bool("vmtp.apg", "Acknowledge at once (APG)", 32, nil, 0x40000000),
    nsr = ProtoField.bool("vmtp.nsr", "Not the start of a run (NSR)", 32, nil, 0x20000000),
    ner = ProtoField.bool("vmtp.ner", "Not the end of a run (NER)", 32, nil, 0x10000000),
    nrt = ProtoField.bool("vmtp.nrt", "No retransmission (NRT)", 32, nil, 0x08000000),
    mdg = ProtoField.bool("vmtp.mdg", "Member of the destination group (MDG)", 32, nil, 0x04000000),
    cmg = ProtoField.bool("vmtp.cmg", "Continued message (CMG)", 32, nil, 0x02000000),
    sti = ProtoField.bool("vmtp.sti", "Skip transaction identifiers (STI)", 32, nil, 0x01000000),
    drt = ProtoField.bool("vmtp.drt", "Delay response (DRT)", 32, nil, 0x00800000),
    retransmit = ProtoField.uint32("vmtp.retransmit_count", "RetransmitCount", base.DEC, nil, 0x00700000),
    forward = ProtoField.uint32("vmtp.forward_count", "ForwardCount", base.DEC, nil, 0x000f0000),
    gap = ProtoField.uint32("vmtp.interpacket_gap", "InterpacketGap", base.DEC, nil, 0x0000ff00),
    groups = ProtoField.uint32("vmtp.pgcount", "PGcount", base.DEC, nil, 0x0000ff00),
    priority = ProtoField.uint32("vmtp.priority", "Priority", base.DEC, nil, 0x000000f0),
    transaction = ProtoField.uint32("vmtp.transaction", "Transaction"),
    delivery = ProtoField.uint32("vmtp.packet_delivery", "PacketDelivery", base.HEX),
    server = ProtoField.uint64("vmtp.server", "Server", base.HEX),
    cmd = ProtoField.bool("vmtp.cmd", "Conditional delivery (CMD)", 8, nil, 0x80),
    dgm = ProtoField.bool("vmtp.dgm", "Datagram, or idempotent (DGM)", 8, nil, 0x40),
    mdm = ProtoField.bool("vmtp.mdm", "MsgDelivery is valid (MDM)", 8, nil, 0x20),
    sda = ProtoField.bool("vmtp.sda", "Segment appended (SDA)", 8, nil, 0x10),
    cre = ProtoField.bool("vmtp.cre", "CoResidentEntity is valid (CRE)", 8, nil, 0x04),
    mrd = ProtoField.bool("vmtp.mrd", "Multiple responses (MRD)", 8, nil, 0x02),
    pic = ProtoField.bool("vmtp.pic", "Public interface (PIC)", 8, nil, 0x01),
    request_code = ProtoField.uint24("vmtp.request_code", "RequestCode", base.HEX),
    response_code = ProtoField.uint24("vmtp.response_code", "ResponseCode", base.DEC, CODES),
    user_data = ProtoField.bytes("vmtp.user_data", "User data"),
    msg_delivery = ProtoField.uint32("vmtp.msg_delivery", "MsgDelivery", base.HEX),
    segment_size = ProtoField.uint32("vmtp.segment_size", "SegmentSize"),
    segment = ProtoField.bytes("vmtp.segment", "Segment data"),
    check = ProtoField.uint32("vmtp.checksum", "Checksum", base.HEX),
}
vmtp.fields = f

-- Octets of the packet at `at`, as its header says; nil if there is no header.
local function packet_len(octets, at)
    if octets:reported_length_remaining(at) < PACKET_MIN or octets:captured_len() < at + HEADER_LEN then
        return nil
    end
    return PACKET_MIN + 4 * bit.band(octets(at + 10, 2):uint(), 0x1fff)
end

local function add_control(tree, word, is_response)
    local control = tree:add(vmtp, word, "Control")
    for _, name in ipairs({ "apg", "nsr", "ner", "nrt", "mdg", "cmg", "sti", "drt", "retransmit", "forward" }) do
        control:add(f[name], word)
    end
    control:add(is_response and f.groups or f.gap, word)
    control:add(f.priority, word)
    control:add(f.response, word)
end

local function add_flags(tree, octets, is_response)
    local flags = tree:add(vmtp, octets(32, 1), "Flags")
    for _, name in ipairs({ "cmd", "dgm", "mdm", "sda" }) do
        flags:add(f[name], octets(32, 1))
    end
    if not is_response then
        for _, name in ipairs({ "cre", "mrd", "pic" }) do
            flags:add(f[name], octets(32, 1))
        end
    end
end

-- One packet, of `len` octets.
local function dissect_packet(octets, len, root)
    local is_response = octets(15, 1):bitfield(7, 1) == 1
    local kind = is_response and "Response" or "Request"
    local transaction = octets(16, 4):uint()
    local tree = root:add(vmtp, octets(0, math.min(len, octets:len())), "VMTP, " .. kind .. ", transaction " .. transaction)
    tree:add(f.client, octets(0, 8))
    tree:add(f.version, octets(8, 2))
    tree:add(f.domain, octets(8, 2))
    for _, name in ipairs({ "hco", "epg", "mpg", "words" }) do
        tree:add(f[name], octets(10, 2))
    end
    add_control(tree, octets(12, 4), is_response)
    tree:add(f.transaction, octets(16, 4))
    tree:add(f.delivery, octets(20, 4))
    tree:add(f.server, octets(24, 8))
    add_flags(tree, octets, is_response)
    tree:add(is_response and f.response_code or f.request_code, octets(33, 3))
    tree:add(f.user_data, octets(36, 20))
    tree:add(f.msg_delivery, octets(56, 4))
    tree:add(f.segment_size, octets(60, 4))
    if len <= octets:len() then
        if len > PACKET_MIN then
            tree:add(f.segment, octets(HEADER_LEN, len - PACKET_MIN))
        end
        tree:add(f.check, octets(len - CHECK_LEN, CHECK_LEN))
    end
    local said = string.format("%s %d, blocks 0x%08x, %d octets of data", kind, transaction, octets(20, 4):uint(), len - PACKET_MIN)
    local code = octets(33, 3):uint()
    if is_response and code ~= 0 then
        said = said .. ", " .. (CODES[code] or ("code " .. code))
    end
    return said
end

-- `rest` is all that the lower layer carries, `octets` from here on.
function vmtp.dissector(octets, pinfo, root)
    local at, said = 0, nil
    while true do
        local len = packet_len(octets, at)
        if not len then
            break
        end
        said = said or dissect_packet(octets(at):tvb(), len, root)
        if at > 0 then
            dissect_packet(octets(at):tvb(), len, root)
        end
        at = at + len
    end
    if not said then
        return 0
    end
    pinfo.cols.protocol = "VMTP"
    pinfo.cols.info = said
    return octets:len()
end

-- Version 0, the Internet's domain 1, an even number of words, no reserved flag, and lengths that add up.
local function looks_like_vmtp(octets, pinfo, root)
    local at, whole = 0, octets:reported_len()
    while at < whole do
        local len = packet_len(octets, at)
        if not len or octets(at + 8, 2):uint() ~= 1 or bit.band(octets(at + 10, 2):uint(), 1) ~= 0 then
            return false
        end
        if bit.band(octets(at + 32, 1):uint(), 0x08) ~= 0 then
            return false
        end
        at = at + len
    end
    if at ~= whole then
        return false
    end
    return vmtp.dissector(octets, pinfo, root) > 0
end

DissectorTable.get("ip.proto"):add(81, vmtp)
DissectorTable.get("ethertype"):add(0x805b, vmtp)
vmtp:register_heuristic("udp", looks_like_vmtp)
