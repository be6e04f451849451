package cluster

import ()

// badNodefiles holds mistakes of one kind: edits of the six-node cluster, and what is said about them.
var badNodefiles = []badInput{
	{
		"a card by its kernel name",
		[]edit{{"nodes/worker-02.yaml", "disks:", "interfaces:\n  - name: eth0\n    dhcp: true\ndisks:"}},
		[]string{
			`nodes/worker-02.yaml:4:11: error: a card is selected by mac, never by a name such as "eth0", which changes; write mac: and the card's permanent address`,
		},
	},
	{
		"an interface that is nothing",
		[]edit{{"nodes/worker-02.yaml", "disks:", "interfaces:\n  - dhcp: true\ndisks:"}},
		[]string{
			`nodes/worker-02.yaml:4:5: error: the interface is empty; write mac for a card, or name with bond or vlan`,
		},
	},
	{
		"a card twice",
		[]edit{{"nodes/worker-02.yaml", "disks:", "interfaces:\n  - {mac: \"52:54:00:77:00:13\", dhcp: true}\n  - {mac: \"52-54-00-77-00-13\", mtu: 1400}\ndisks:"}},
		[]string{
			`nodes/worker-02.yaml:5:11: error: the card 52:54:00:77:00:13 exists already (nodes/worker-02.yaml:4); put all settings of a card into one entry`,
		},
	},
	{
		"a card of another node",
		[]edit{{"nodes/worker-02.yaml", "disks:", "interfaces:\n  - {mac: \"52:54:00:77:00:12\", dhcp: true}\ndisks:"}},
		[]string{
			`nodes/worker-02.yaml:4:11: error: the card 52:54:00:77:00:12 belongs to node worker-01; correct the address`,
		},
	},
	{
		"a card with a name",
		[]edit{{"nodes/worker-02.yaml", "disks:", "interfaces:\n  - {mac: \"52:54:00:77:00:13\", name: lan0, dhcp: true}\ndisks:"}},
		[]string{
			`nodes/worker-02.yaml:4:38: error: a card keeps its own name; remove name (only a bond or VLAN gets one)`,
		},
	},
	{
		"a multicast card",
		[]edit{{"nodes/worker-02.yaml", "disks:", "interfaces:\n  - {mac: \"53:54:00:77:00:13\", dhcp: true}\ndisks:"}},
		[]string{
			`nodes/worker-02.yaml:4:11: error: the MAC address "53:54:00:77:00:13" is a multicast address (the first byte is odd), which cannot belong to a network card`,
		},
	},
	{
		"a static address without prefix length",
		[]edit{{"nodes/storage-01.yaml", "addresses: [10.77.0.15/24]", "addresses: [10.77.0.15]"}},
		[]string{
			`nodes/storage-01.yaml:9:17: error: "10.77.0.15" is not an address with prefix length; write it as 10.77.0.15/24`,
		},
	},
	{
		"a static address with another prefix length",
		[]edit{{"nodes/storage-01.yaml", "addresses: [10.77.0.15/24]", "addresses: [10.77.0.15/16]"}},
		[]string{
			`nodes/storage-01.yaml:9:17: error: the prefix length of 10.77.0.15/16 differs from that of the node subnet 10.77.0.0/24; write 10.77.0.15/24`,
		},
	},
	{
		"a static address of another node",
		[]edit{{"nodes/storage-01.yaml", "addresses: [10.77.0.15/24]", "addresses: [10.77.0.15/24, 10.77.0.14/24]"}},
		[]string{
			`nodes/storage-01.yaml:9:32: error: the address 10.77.0.14 belongs to node kafka-01 already (cluster.yaml:29); an address belongs to one node`,
		},
	},
	{
		"a static address that is the VIP",
		[]edit{{"nodes/storage-01.yaml", "addresses: [10.77.0.15/24]", "addresses: [10.77.0.15/24, 10.77.0.100/24]"}},
		[]string{
			`nodes/storage-01.yaml:9:32: error: the address 10.77.0.100 is the control-plane endpoint (VIP); give the node its own address`,
		},
	},
	{
		"a static address twice",
		[]edit{{"nodes/storage-01.yaml", "addresses: [192.168.20.15/24]", "addresses: [10.77.0.15/24]"}},
		[]string{
			`nodes/storage-01.yaml:13:17: error: the address 10.77.0.15 is on another interface of this node already; remove one`,
		},
	},
	{
		"a node address on no interface",
		[]edit{{"nodes/storage-01.yaml", "    addresses: [10.77.0.15/24]\n", ""}},
		[]string{
			`nodes/storage-01.yaml:4:3: error: the node's address 10.77.0.15 (cluster.yaml:36) is missing on its interfaces; add it to the addresses of one, or write dhcp: true`,
		},
	},
	{
		"a gateway that the interface does not reach",
		[]edit{{"nodes/storage-01.yaml", "addresses: [192.168.20.15/24]", "addresses: [192.168.20.15/24]\n    gateways: [192.168.21.1]"}},
		[]string{
			`nodes/storage-01.yaml:14:16: error: the gateway 192.168.21.1 lies outside the networks of this interface's addresses; correct it, or move it to the interface that reaches it`,
		},
	},
	{
		"a gateway that is the interface itself",
		[]edit{{"nodes/storage-01.yaml", "addresses: [192.168.20.15/24]", "addresses: [192.168.20.15/24]\n    gateways: [192.168.20.15]"}},
		[]string{
			`nodes/storage-01.yaml:14:16: error: the gateway 192.168.20.15 is this interface's own address; write the router's`,
		},
	},
	{
		"two default gateways",
		[]edit{
			{"nodes/storage-01.yaml", "addresses: [192.168.20.15/24]", "addresses: [192.168.20.15/24]\n    gateways: [192.168.20.1]"},
			{"nodes/storage-01.yaml", "addresses: [10.77.0.15/24]", "addresses: [10.77.0.15/24]\n    gateways: [10.77.0.2]"},
		},
		[]string{
			`nodes/storage-01.yaml:15:16: warning: 192.168.20.1 is a second IPv4 gateway of this node (first nodes/storage-01.yaml:10); packets will leave by either: keep one`,
		},
	},
	{
		"an MTU that is too small",
		[]edit{{"nodes/storage-01.yaml", "mtu: 9000\n    addresses: [192", "mtu: 68\n    addresses: [192"}},
		[]string{
			`nodes/storage-01.yaml:12:10: error: the MTU 68 is out of bounds; write 576 to 9216`,
		},
	},
	{
		"an MTU that is too small for IPv6",
		[]edit{{"nodes/storage-01.yaml", "mtu: 9000\n    addresses: [192.168.20.15/24]", "mtu: 1000\n    addresses: [\"fd20::15/64\"]"}},
		[]string{
			`nodes/storage-01.yaml:12:10: error: the MTU 1000 is out of bounds; write 1280 to 9216`,
		},
	},
	{
		"a VLAN with a larger MTU than its bond",
		[]edit{{"nodes/storage-01.yaml", "mtu: 9000\n    addresses: [10", "mtu: 1500\n    addresses: [10"}},
		[]string{
			`nodes/storage-01.yaml:12:10: error: the VLAN's MTU 9000 is larger than its parent's, 1500; lower it or raise the parent's`,
		},
	},
	{
		"a VLAN id out of bounds",
		[]edit{{"nodes/storage-01.yaml", "id: 20", "id: 4095"}},
		[]string{
			`nodes/storage-01.yaml:11:16: error: the VLAN id 4095 is out of bounds; write 1 to 4094`,
		},
	},
	{
		"a VLAN on nothing",
		[]edit{{"nodes/storage-01.yaml", "parent: bond0", "parent: bond1"}},
		[]string{
			`nodes/storage-01.yaml:11:28: error: the VLAN's parent "bond1" is not a card or bond of this node; write the MAC of a card or the name of a bond above`,
		},
	},
	{
		"a VLAN on a card of a bond",
		[]edit{{"nodes/storage-01.yaml", "parent: bond0", "parent: \"52:54:00:77:00:15\""}},
		[]string{
			`nodes/storage-01.yaml:11:28: error: the card 52:54:00:77:00:15 is a member of bond0; put the VLAN on the bond: parent: bond0`,
		},
	},
	{
		"a VLAN twice",
		[]edit{{"nodes/storage-01.yaml", "disks:", "  - name: again.20\n    vlan: {id: 20, parent: bond0}\ndisks:"}},
		[]string{
			`nodes/storage-01.yaml:15:16: error: VLAN 20 of bond0 exists already (nodes/storage-01.yaml:10); put all its settings into one entry`,
		},
	},
	{
		"an interface name that is too long",
		[]edit{{"nodes/storage-01.yaml", "name: storage.20", "name: storage-network.20"}},
		[]string{
			`nodes/storage-01.yaml:10:11: error: the interface name "storage-network.20" is not valid; write 1 to 15 lower-case letters, digits, -, _ and ., the first a letter`,
		},
	},
	{
		"an interface name of the kernel",
		[]edit{{"nodes/storage-01.yaml", "name: storage.20", "name: enp3s0"}},
		[]string{
			`nodes/storage-01.yaml:10:11: error: the interface name "enp3s0" is one that the kernel gives to cards; choose another, such as bond0`,
		},
	},
	{
		"an interface name twice",
		[]edit{{"nodes/storage-01.yaml", "name: storage.20", "name: bond0"}},
		[]string{
			`nodes/storage-01.yaml:10:11: error: the interface name "bond0" exists already (nodes/storage-01.yaml:4); names are unique on a node`,
		},
	},
	{
		"a bond without a name",
		[]edit{
			{"nodes/storage-01.yaml", "  - name: bond0\n    bond:", "  - bond:"},
			{"nodes/storage-01.yaml", "  - name: storage.20\n    vlan: {id: 20, parent: bond0}\n    mtu: 9000\n    addresses: [192.168.20.15/24]\n", ""},
		},
		[]string{
			`nodes/storage-01.yaml:4:5: error: a bond or VLAN needs a name; write one such as bond0 or plant.20`,
		},
	},
	{
		"a bond that is a VLAN",
		[]edit{{"nodes/storage-01.yaml", "    vlan: {id: 20, parent: bond0}", "    vlan: {id: 20, parent: bond0}\n    bond: {members: [\"52:54:00:77:02:15\", \"52:54:00:77:03:15\"]}"}},
		[]string{
			`nodes/storage-01.yaml:10:5: error: an interface is a bond or a VLAN, not both; make the bond first, and the VLAN with the bond's name as parent`,
		},
	},
	{
		"a bond mode that does not exist",
		[]edit{{"nodes/storage-01.yaml", "mode: 802.3ad", "mode: 802.3da"}},
		[]string{
			`nodes/storage-01.yaml:7:13: error: the bond mode "802.3da" is unknown; did you mean "802.3ad"?`,
		},
	},
	{
		"a bond of one card",
		[]edit{{"nodes/storage-01.yaml", "[\"52:54:00:77:00:15\", \"52:54:00:77:01:15\"]", "[\"52:54:00:77:00:15\"]"}},
		[]string{
			`nodes/storage-01.yaml:6:16: warning: a bond of one card brings nothing; add the second card, or give the card the addresses itself`,
		},
	},
	{
		"a bond without cards",
		[]edit{{"nodes/storage-01.yaml", "[\"52:54:00:77:00:15\", \"52:54:00:77:01:15\"]", "[]"}},
		[]string{
			`nodes/storage-01.yaml:6:16: error: a bond needs members; write the MACs of its cards`,
		},
	},
	{
		"a card in a bond twice",
		[]edit{{"nodes/storage-01.yaml", "[\"52:54:00:77:00:15\", \"52:54:00:77:01:15\"]", "[\"52:54:00:77:00:15\", \"52:54:00:77:00:15\"]"}},
		[]string{
			`nodes/storage-01.yaml:6:38: error: the card 52:54:00:77:00:15 is a member of bond0 already; a card belongs to one bond`,
		},
	},
	{
		"a bond member with addresses of its own",
		[]edit{{"nodes/storage-01.yaml", "disks:", "  - mac: \"52:54:00:77:01:15\"\n    dhcp: true\ndisks:"}},
		[]string{
			`nodes/storage-01.yaml:14:5: error: the card 52:54:00:77:01:15 is a member of bond0 and cannot have addresses of its own; move them to the bond`,
		},
	},
	{
		"a disk by its kernel name",
		[]edit{{"nodes/worker-02.yaml", "serial: OSD-WORKER-02", "serial: /dev/sda"}},
		[]string{
			"nodes/worker-02.yaml:4:35: error: \"/dev/sda\" is a kernel name, which moves from disk to disk; write what `spore disks` shows for it",
		},
	},
	{
		"a disk pattern that can match two",
		[]edit{{"nodes/worker-02.yaml", "serial: OSD-WORKER-02", "serial: OSD-*"}},
		[]string{
			`nodes/worker-02.yaml:4:35: error: the selector "OSD-*" is a pattern and can match two disks; write the whole serial of one disk`,
		},
	},
	{
		"a disk serial that vendors repeat",
		[]edit{{"nodes/worker-02.yaml", "serial: OSD-WORKER-02", "serial: \"0000000000\""}},
		[]string{
			`nodes/worker-02.yaml:4:35: error: the disk serial number "0000000000" is a placeholder that vendors put into many machines; it identifies no machine`,
		},
	},
	{
		"a disk with two selectors",
		[]edit{{"nodes/worker-02.yaml", "serial: OSD-WORKER-02", "serial: OSD-WORKER-02, wwn: \"0x5000c500a1b2c3d4\""}},
		[]string{
			`nodes/worker-02.yaml:4:26: error: a selector has exactly one of serial, wwn and byID, because two could match different disks: keep the serial`,
		},
	},
	{
		"a disk without a selector",
		[]edit{{"nodes/worker-02.yaml", "selector: {serial: OSD-WORKER-02}", "selector: {}"}},
		[]string{
			"nodes/worker-02.yaml:4:26: error: the selector names no disk; write one of serial, wwn and byID, as `spore disks` shows them",
		},
	},
	{
		"a disk twice",
		[]edit{{"nodes/storage-01.yaml", "serial: STATE-STORAGE-01", "serial: OSD-STORAGE-01"}},
		[]string{
			`nodes/storage-01.yaml:16:26: error: this selector and the selector of nodes/storage-01.yaml:15 can match the same disk; write one entry for each disk`,
		},
	},
	{
		"a disk twice by serial and by-id",
		[]edit{{"nodes/storage-01.yaml", "serial: STATE-STORAGE-01", "byID: ata-WDC_OSD-STORAGE-01"}},
		[]string{
			`nodes/storage-01.yaml:16:26: error: this selector and the selector of nodes/storage-01.yaml:15 can match the same disk; write one entry for each disk`,
		},
	},
	{
		"a disk twice by WWN and by-id",
		[]edit{{"nodes/kafka-01.yaml", "byID: nvme-SAMSUNG_MZVL2512_S64KNX0R", "byID: wwn-0x5000c500a1b2c3d4"}},
		[]string{
			`nodes/kafka-01.yaml:5:28: error: this selector and the selector of nodes/kafka-01.yaml:4 can match the same disk; write one entry for each disk`,
		},
	},
	{
		"a partition as a disk",
		[]edit{{"nodes/kafka-01.yaml", "byID: nvme-SAMSUNG_MZVL2512_S64KNX0R", "byID: nvme-SAMSUNG_MZVL2512_S64KNX0R-part1"}},
		[]string{
			`nodes/kafka-01.yaml:5:35: error: "nvme-SAMSUNG_MZVL2512_S64KNX0R-part1" is a partition; write the name of the whole disk: "nvme-SAMSUNG_MZVL2512_S64KNX0R"`,
		},
	},
	{
		"a by-id name with its directory",
		[]edit{{"nodes/kafka-01.yaml", "byID: nvme-SAMSUNG", "byID: /dev/disk/by-id/nvme-SAMSUNG"}},
		[]string{
			`nodes/kafka-01.yaml:5:35: error: write the name under /dev/disk/by-id alone: "nvme-SAMSUNG_MZVL2512_S64KNX0R"`,
		},
	},
	{
		"a WWN that is none",
		[]edit{{"nodes/kafka-01.yaml", "0x5000c500a1b2c3d4", "5000c500"}},
		[]string{
			"nodes/kafka-01.yaml:4:34: error: \"5000c500\" is not a World Wide Name; write it as `spore disks` shows it, such as 0x5000c500a1b2c3d4 or eui.0025385b71b0a1b2",
		},
	},
	{
		"two state disks",
		[]edit{{"nodes/kafka-01.yaml", "use: kafka", "use: state"}},
		[]string{
			`nodes/kafka-01.yaml:5:11: error: this is the second state disk; a node has one`,
		},
	},
	{
		"a disk of a store on a node without one",
		[]edit{{"nodes/kafka-01.yaml", "use: kafka", "use: metrics"}},
		[]string{
			`nodes/kafka-01.yaml:5:11: error: the disk is for metrics, but node kafka-01 has no role metrics-store; add the role in cluster.yaml or remove the disk`,
		},
	},
	{
		"a use that does not exist",
		[]edit{{"nodes/kafka-01.yaml", "use: kafka", "use: scratch"}},
		[]string{
			`nodes/kafka-01.yaml:5:11: error: the use of a disk "scratch" is unknown; write state, osd, kafka, metrics or logs`,
		},
	},
	{
		"an OSD disk without the role",
		[]edit{{"nodes/kafka-01.yaml", "use: kafka", "use: osd"}},
		[]string{
			`nodes/kafka-01.yaml:5:11: error: the disk is for osd, but node kafka-01 has no role ceph-osd; add the role in cluster.yaml or remove the disk`,
		},
	},
	{
		"a disk of Kafka that is to be encrypted",
		[]edit{{"nodes/kafka-01.yaml", "use: kafka", "use: kafka, encrypt: true"}},
		[]string{
			`nodes/kafka-01.yaml:5:27: error: only disks for osd are encrypted; remove encrypt`,
		},
	},
	{
		"a key of the state that does not exist",
		[]edit{{"nodes/kafka-01.yaml", "disks:", "state: {encrypt: tpm}\ndisks:"}},
		[]string{
			`nodes/kafka-01.yaml:3:18: error: the key of the state "tpm" is unknown; did you mean "tpm2"?`,
		},
	},
	{
		"what to do without a TPM, and no TPM",
		[]edit{{"nodes/kafka-01.yaml", "disks:", "state: {encrypt: passphrase, withoutTPM: refuse}\ndisks:"}},
		[]string{
			`nodes/kafka-01.yaml:3:42: error: this is about encrypt: tpm2 and tpm2-pin alone; remove withoutTPM`,
		},
	},
	{
		"no key in place of a TPM",
		[]edit{{"nodes/kafka-01.yaml", "disks:", "state: {encrypt: tpm2, withoutTPM: none}\ndisks:"}},
		[]string{
			`nodes/kafka-01.yaml:3:36: error: withoutTPM "none" is unknown; write refuse, passphrase or host-key`,
		},
	},
	{
		"a label key that is not valid",
		[]edit{{"nodes/worker-02.yaml", "plant.example/hall: north", "hall of fame: north"}},
		[]string{
			`nodes/worker-02.yaml:6:17: error: the label key "hall of fame" is not valid; write name or domain/name, where the name is 1 to 63 letters, digits, -, _ and .`,
		},
	},
	{
		"a label value that is not valid",
		[]edit{{"nodes/worker-02.yaml", "hall: north", "hall: \"north wing\""}},
		[]string{
			`nodes/worker-02.yaml:6:23: error: the label value "north wing" is not valid; write at most 63 letters, digits, -, _ and ., with a letter or digit at both ends`,
		},
	},
	{
		"a label that belongs to Kubernetes",
		[]edit{{"nodes/worker-02.yaml", "plant.example/hall: north", "storage.kubernetes.io/hall: \"\""}},
		[]string{
			`nodes/worker-02.yaml:6:31: error: the label "storage.kubernetes.io/hall" belongs to Kubernetes; use a domain of your own, such as plant.example/hall`,
		},
	},
	{
		"a taint that is not valid",
		[]edit{{"nodes/worker-02.yaml", "plant.example/storage=yes:PreferNoSchedule", "storage"}},
		[]string{
			`nodes/worker-02.yaml:7:10: error: the taint "storage" is not valid; write key=value:Effect or key:Effect, such as dedicated=storage:NoSchedule`,
		},
	},
	{
		"a taint effect that does not exist",
		[]edit{{"nodes/worker-02.yaml", "PreferNoSchedule", "NoSchedul"}},
		[]string{
			`nodes/worker-02.yaml:7:10: error: the taint effect "NoSchedul" is unknown; did you mean "NoSchedule"?`,
		},
	},
	{
		"labels on a node without Kubernetes",
		[]edit{{"nodes/kafka-01.yaml", "disks:", "labels: {rack: a1}\ndisks:"}},
		[]string{
			`nodes/kafka-01.yaml:3:9: warning: labels and taints are for Kubernetes, and node kafka-01 has no role of it; remove them or add the role worker`,
		},
	},
	{
		"a kernel parameter with slashes",
		[]edit{{"nodes/kafka-01.yaml", "vm.max_map_count", "/proc/sys/vm/max_map_count"}},
		[]string{
			`nodes/kafka-01.yaml:7:31: error: the kernel parameter "/proc/sys/vm/max_map_count" is not a dotted name; write it as under /proc/sys with dots, such as net.core.somaxconn`,
		},
	},
	{
		"a kernel parameter of no tree",
		[]edit{{"nodes/kafka-01.yaml", "vm.max_map_count", "kernl.panic"}},
		[]string{
			`nodes/kafka-01.yaml:7:16: error: the kernel parameter's first part "kernl" is unknown; did you mean "kernel"?`,
		},
	},
	{
		"a kernel parameter without a value",
		[]edit{{"nodes/kafka-01.yaml", "\"262144\"", "\"\""}},
		[]string{
			`nodes/kafka-01.yaml:7:21: error: the kernel parameter vm.max_map_count needs a value in one line`,
		},
	},
}
