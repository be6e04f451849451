package rehearsal

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/ceph"
	"spore/services/mqtt"
)

// load is a folder of configuration as an image has it.
func load(t *testing.T, dir string) (*facts.Cluster, []facts.Node) {
	t.Helper()
	config, report := cluster.LoadDir(dir)
	require.NoError(t, report.Err())
	c, nodes := cluster.Facts(config)
	return &c, nodes
}

// up is the machine's user-mode network.
func (m Machine) up() vm.NIC { return m.NICs[len(m.NICs)-1] }

// summary shows a machine in one line.
func (m Machine) summary() string {
	var out []string
	for _, n := range m.NICs[:len(m.NICs)-1] {
		out = append(out, n.MAC)
	}
	out = append(out, m.up().DHCPStart)
	for _, d := range m.Disks {
		out = append(out, d.Name)
	}
	return strings.Join(out, " ")
}

func TestEveryNodeOfTheExampleHasItsCardsDisksAndMemory(t *testing.T) {
	c, nodes := load(t, "../../configs")
	machines, err := Plan(c, nodes, []string{"master-01", "worker-01", "worker-02", "kafka-01", "storage-01", "edge-01"})
	require.NoError(t, err)
	want := map[string]struct {
		summary string
		memory  int
	}{
		"master-01":  {"52:54:00:77:00:11 10.77.0.11", 3072},
		"worker-01":  {"52:54:00:77:00:12 10.77.0.12", 2048},
		"worker-02":  {"52:54:00:77:00:13 10.77.0.13 osd-OSD-WORKER-02", 3072},
		"kafka-01":   {"52:54:00:77:00:14 10.77.0.14 kafka-KAFKA-01-DATA", 1536},
		"storage-01": {"52:54:00:77:00:15 10.77.0.15 osd-OSD-STORAGE-01", 2304},
		"edge-01":    {"52:54:00:77:00:16 10.77.0.16", 1024},
	}
	for _, m := range machines {
		require.Equal(t, want[m.Node.Name].summary, m.summary())
		require.Equal(t, want[m.Node.Name].memory, m.Memory, m.Node.Name)
		require.Empty(t, m.Missing)
		require.Equal(t, "10.77.0.2", m.up().Gateway)
		require.Equal(t, "10.77.0.3", m.up().Nameserver, "the cluster's is a node")
		for _, d := range m.Disks {
			require.Contains(t, []string{"OSD-WORKER-02", "KAFKA-01-DATA", "OSD-STORAGE-01"}, d.Device.Serial)
			require.GreaterOrEqual(t, d.Size, int64(8<<30))
		}
	}
	_, err = Plan(c, nodes, []string{"edge-02"})
	require.ErrorContains(t, err, `the image has no node "edge-02"; did you mean "edge-01"? Its nodes are `)
	require.ErrorContains(t, err, "edge-01")
}

// guests are the forwarded ports of a machine.
func (m Machine) guests() []string {
	var out []string
	for _, f := range m.up().Forwards {
		_, port, _ := strings.Cut(f.Guest, ":")
		out = append(out, port+"/"+f.Protocol)
	}
	return out
}

func TestThePortsOfEnabledProgramsAreForwarded(t *testing.T) {
	c, nodes := load(t, "../../configs")
	machines, err := Plan(c, nodes, []string{"master-01", "worker-01", "kafka-01", "storage-01", "edge-01"})
	require.NoError(t, err)
	require.Subset(t, machines[0].guests(), []string{"6443/tcp", "2379/tcp", "10250/tcp", "10053/udp"})
	require.NotContains(t, machines[1].guests(), "6443/tcp")
	require.Contains(t, machines[2].guests(), "9092/tcp")
	require.Contains(t, machines[3].guests(), "3300/tcp")
	require.Equal(t, []string{"8883/tcp", "53/udp", "53/tcp", "8643/tcp"}, machines[4].guests(), "that of every node comes last")
	for _, m := range machines {
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(m.guests()))), len(m.guests()), "a port is forwarded once")
	}
	mqtt.Of(c.Services).Port = 1234
	machines, err = Plan(c, nodes, []string{"edge-01"})
	require.NoError(t, err)
	require.Contains(t, machines[0].guests(), "1234/tcp")
	require.NotContains(t, machines[0].guests(), "8883/tcp")
}

func TestANodeIsMadeKnownByWhatItIsKnownBy(t *testing.T) {
	c, nodes := load(t, "../../examples/edge")
	machines, err := Plan(c, nodes, []string{"edge-01", "mqtt-01", "dns-01"})
	require.NoError(t, err)
	require.Equal(t, []string{"10.77.0.11", "10.77.0.12", "10.77.0.13"}, []string{machines[0].up().DHCPStart, machines[1].up().DHCPStart, machines[2].up().DHCPStart})
	require.Equal(t, "dns-01", machines[2].up().Hostname)
	made := []string{machines[1].NICs[0].MAC, machines[2].NICs[0].MAC}
	require.NotEqual(t, made[0], made[1])
	require.NotContains(t, made, machines[0].NICs[0].MAC)
	again, err := Plan(c, nodes, []string{"mqtt-01"})
	require.NoError(t, err)
	require.Equal(t, made[0], again[0].NICs[0].MAC, "the same at each boot")
}

func TestAllCardsOfANodeAreThereInOrder(t *testing.T) {
	c, nodes := load(t, "../../test/e2e/testdata/metal")
	machines, err := Plan(c, nodes, []string{"metal-01"})
	require.NoError(t, err)
	var names []string
	for _, n := range machines[0].NICs {
		names = append(names, n.MAC+" "+n.Links[0].Name)
	}
	require.Equal(t, []string{"52:54:00:77:00:15 metal-01.0", "52:54:00:77:00:16 metal-01.1", " metal-01.up"}, names)
	require.Equal(t, "METALSTATE", machines[0].Disks[0].Device.Serial)
}

func TestThisHostTakesNoAddressOfANode(t *testing.T) {
	node := func(ip string) facts.Node { return facts.Node{Name: "n" + ip, IPs: []string{ip}} }
	for _, tt := range []struct {
		name                               string
		network                            spec.Network
		nodes                              []facts.Node
		gateway, nameserver, dhcp, station string
	}{
		{"the cluster's own", spec.Network{NodeSubnets: []string{"192.168.1.0/24"}, Gateways: []string{"192.168.1.1"}, Nameservers: []string{"192.168.1.1", "192.168.1.53"}},
			[]facts.Node{node("192.168.1.9")}, "192.168.1.1", "192.168.1.53", "192.168.1.9", "192.168.1.254"},
		{"what nodes have", spec.Network{NodeSubnets: []string{"fd00::/64", "10.0.0.0/24"}, Gateways: []string{"10.0.0.2"}},
			[]facts.Node{node("10.0.0.2"), node("10.0.0.3"), node("10.0.0.254")}, "10.0.0.253", "10.0.0.252", "10.0.0.2", "10.0.0.251"},
		{"what is elsewhere", spec.Network{NodeSubnets: []string{"10.0.0.0/24"}, Gateways: []string{"10.9.0.1"}, Nameservers: []string{"9.9.9.9"}},
			[]facts.Node{{Name: "no address"}}, "10.0.0.2", "10.0.0.3", "10.0.0.253", "10.0.0.254"},
		{"an address of an interface", spec.Network{NodeSubnets: []string{"10.0.0.0/24"}},
			[]facts.Node{{Name: "a", IPs: []string{"10.0.0.9"}, Interfaces: []spec.Interface{{Name: "b", Addresses: []string{"10.0.0.2/24"}}}}}, "10.0.0.254", "10.0.0.3", "10.0.0.9", "10.0.0.253"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			machines, err := Plan(&facts.Cluster{Network: tt.network}, tt.nodes, []string{tt.nodes[0].Name})
			require.NoError(t, err)
			up := machines[0].up()
			require.Equal(t, []string{tt.gateway, tt.nameserver, tt.dhcp}, []string{up.Gateway, up.Nameserver, up.DHCPStart})
			address, mac, err := Station(&facts.Cluster{Network: tt.network}, tt.nodes)
			require.NoError(t, err)
			require.Equal(t, tt.station, address.Addr().String())
			require.NotContains(t, cardsOf(&tt.nodes[0]), mac.String())
		})
	}
	_, err := Plan(&facts.Cluster{Network: spec.Network{NodeSubnets: []string{"fd00::/64"}}}, nil, nil)
	require.ErrorContains(t, err, "needs an IPv4 subnet")
	_, err = Plan(&facts.Cluster{Network: spec.Network{NodeSubnets: []string{"10.0.0.0/30"}}}, []facts.Node{node("10.0.0.1")}, nil)
	require.ErrorContains(t, err, "no address of 10.0.0.0/30 is free")
	full := []facts.Node{node("10.0.0.1"), node("10.0.0.2"), node("10.0.0.3"), node("10.0.0.4")}
	_, err = Plan(&facts.Cluster{Network: spec.Network{NodeSubnets: []string{"10.0.0.0/29"}}}, full, nil)
	require.NoError(t, err, "its machines need no address for this host")
	_, _, err = Station(&facts.Cluster{Network: spec.Network{NodeSubnets: []string{"10.0.0.0/29"}}}, full)
	require.ErrorContains(t, err, "no address of 10.0.0.0/29 is free for this host")
}

func TestDisksAreNamedAsTheirSelectorsWantThem(t *testing.T) {
	long := strings.Repeat("S", 36)
	for _, tt := range []struct {
		selector spec.DiskSelector
		want     vm.Disk
		err      string
	}{
		{spec.DiskSelector{Serial: "S4EWNX0R123456"}, vm.Disk{Serial: "S4EWNX0R123456"}, ""},
		{spec.DiskSelector{Serial: long}, vm.Disk{Bus: "scsi", Serial: long}, ""},
		{spec.DiskSelector{Serial: long + "S"}, vm.Disk{}, "at most 36 characters"},
		{spec.DiskSelector{WWN: "0x5000C500A1B2C3D4"}, vm.Disk{Bus: "scsi", WWN: "0x5000c500a1b2c3d4"}, ""},
		{spec.DiskSelector{WWN: "naa.5000c500a1b2c3d4"}, vm.Disk{Bus: "scsi", WWN: "0x5000c500a1b2c3d4"}, ""},
		{spec.DiskSelector{WWN: "eui.0025385b71b0a1b2"}, vm.Disk{Bus: "nvme", EUI: "0x0025385b71b0a1b2"}, ""},
		{spec.DiskSelector{WWN: "uuid.3a5b8f0e-0000-4000-8000-00000000000b"}, vm.Disk{Bus: "nvme", UUID: "3a5b8f0e-0000-4000-8000-00000000000b"}, ""},
		{spec.DiskSelector{WWN: "0x6000c500a1b2c3d46000c500a1b2c3d4"}, vm.Disk{}, "64 bits"},
		{spec.DiskSelector{ByID: "wwn-0x5000c500a1b2c3d4"}, vm.Disk{Bus: "scsi", WWN: "0x5000c500a1b2c3d4"}, ""},
		{spec.DiskSelector{ByID: "nvme-eui.0025385b71b0a1b2"}, vm.Disk{Bus: "nvme", EUI: "0x0025385b71b0a1b2"}, ""},
		{spec.DiskSelector{ByID: "virtio-DATA"}, vm.Disk{Serial: "DATA"}, ""},
		{spec.DiskSelector{ByID: "/dev/disk/by-id/ata-Samsung_SSD_860_EVO_S3Z"}, vm.Disk{Bus: "sata", Model: "Samsung_SSD_860_EVO", Serial: "S3Z"}, ""},
		{spec.DiskSelector{ByID: "ata-nothing"}, vm.Disk{}, "no disk of that name"},
		{spec.DiskSelector{ByID: "nvme-SAMSUNG_MZVL2512_S64KNX0R"}, vm.Disk{}, "no disk of that name"},
	} {
		got, err := disk(spec.Disk{Use: "osd", Selector: tt.selector})
		if tt.err != "" {
			require.ErrorContains(t, err, tt.err)
			require.ErrorContains(t, err, "the node will not have it")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tt.want, got.Device)
		require.EqualValues(t, 10<<30, got.Size)
	}
}

func TestDisksHaveFilesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range []string{"A B", "A_B", "A/B", "..", "a", "A", strings.Repeat("x", 300), strings.Repeat("x", 301)} {
		name := "osd-" + fileName(s)
		require.False(t, seen[name], name)
		seen[name] = true
		require.NotContains(t, name, "/")
		require.NoError(t, os.WriteFile(t.TempDir()+"/"+name+".qcow2", nil, 0o600))
	}
}

func TestMemoryIsThatOfTheRoles(t *testing.T) {
	osd := spec.Disk{Use: "osd"}
	for _, tt := range []struct {
		node facts.Node
		ceph *ceph.Settings
		want int
	}{
		{facts.Node{}, nil, 1024},
		{facts.Node{Roles: []string{"control-plane", "worker"}}, nil, 3072},
		{facts.Node{Roles: []string{"ceph-osd"}, Disks: []spec.Disk{osd, osd, {Use: "state"}}}, &ceph.Settings{}, 2560},
		{facts.Node{Roles: []string{"ceph-osd"}, Disks: []spec.Disk{osd}}, &ceph.Settings{OSDMemory: 4000}, 4640},
		{facts.Node{Roles: []string{"a role of tomorrow"}}, nil, 1280},
	} {
		require.Equal(t, tt.want, Memory(&facts.Cluster{Services: spec.Services{tt.ceph}}, &tt.node))
	}
}
