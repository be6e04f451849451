package cluster

import "strings"

// badNetwork holds mistakes of one kind: edits of the six-node cluster, and what is said about them.
var badNetwork = []badInput{
	{
		"a name that is not a DNS label",
		[]edit{{"cluster.yaml", "name: plant\n", "name: Plant_1\n"}},
		[]string{
			`cluster.yaml:4:7: error: the cluster's name "Plant_1" is not a DNS label; write 1 to 63 lower-case letters, digits and -, with a letter or digit at both ends`,
		},
	},
	{
		"a cluster id that is not a UUID",
		[]edit{{"cluster.yaml", "id: 0b9c4f62-7d53-4a1e-8f7c-4d1f2a3b5c6d", "id: plant-1"}},
		[]string{
			`cluster.yaml:5:5: error: the cluster id "plant-1" is not a unique UUID; write the output of uuidgen once, and never change it`,
		},
	},
	{
		"a cluster id of zeros",
		[]edit{{"cluster.yaml", "id: 0b9c4f62-7d53-4a1e-8f7c-4d1f2a3b5c6d", "id: 00000000-0000-0000-0000-000000000000"}},
		[]string{
			`cluster.yaml:5:5: error: the cluster id "00000000-0000-0000-0000-000000000000" is not a unique UUID; write the output of uuidgen once, and never change it`,
		},
	},
	{
		"a trial of two days",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\ntrialMinutes: 2880"}},
		[]string{
			`cluster.yaml:7:15: error: trialMinutes 2880 is out of bounds; write 0 to 1440`,
		},
	},
	{
		"a trial that settles for less than nothing",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\ntrialSettle: -1"}},
		[]string{
			`cluster.yaml:7:14: error: trialSettle -1 is out of bounds; write 0 to 1440`,
		},
	},
	{
		"a trial that settles for two days",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\ntrialSettle: 2880"}},
		[]string{
			`cluster.yaml:7:14: error: trialSettle 2880 is out of bounds; write 0 to 1440`,
		},
	},
	{
		"withdrawn certificates that are none",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nwithdrawn:\n  - serial: \"4F:00\"\n  - {user: anna}\n  - serial: \"4f00\"\n  - {serial: 4f00, why: stolen}"}},
		[]string{
			`cluster.yaml:8:13: error: "4F:00" is not the serial number of a certificate; write it in lower-case hexadecimal, as ` + "`spore access --list`" + ` shows it, in quotation marks`,
			`cluster.yaml:9:5: error: the key "serial" is missing; add it and write a text`,
			`cluster.yaml:11:14: error: the serial number "4f00" exists already, at cluster.yaml:10; remove one`,
		},
	},
	{
		"a withdrawn certificate whose serial number is a number of YAML",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nwithdrawn:\n  - serial: 4700"}},
		[]string{
			`cluster.yaml:8:13: error: serial is a number where a text belongs; put it into quotes: "4700"`,
		},
	},
	{
		"a withdrawn certificate of which too much is said",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nwithdrawn:\n  - serial: \"47\"\n    why: " + strings.Repeat("x", 257)}},
		[]string{
			`cluster.yaml:9:10: error: this has 257 bytes, and 256 are the most; write less`,
		},
	},
	{
		"rights to logs of whom nobody knows",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nlogRights:\n  audit: [operator, spore:reader, anna maria, \"\"]\n  pods: [anna, reader, anna]"}},
		[]string{
			`cluster.yaml:8:21: error: "spore:reader" is neither reader, operator or admin nor the name of a person; write a name as it is in ` + "`spore access`" + `: letters, digits and @ . _ -`,
			`cluster.yaml:8:35: error: "anna maria" is neither reader, operator or admin nor the name of a person; write a name as it is in ` + "`spore access`" + `: letters, digits and @ . _ -`,
			`cluster.yaml:8:47: error: "" is neither reader, operator or admin nor the name of a person; write a name as it is in ` + "`spore access`" + `: letters, digits and @ . _ -`,
			`cluster.yaml:9:24: error: the entry "anna" exists already, at cluster.yaml:9; remove one`,
		},
	},
	{
		"rights to logs of nobody",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nlogRights:\n  audit: []\n  units: [reader]"}},
		[]string{
			`cluster.yaml:8:10: error: nobody is in this list; write admin for admins alone, or remove audit, and operators may`,
			`cluster.yaml:9:3: error: unknown key "units"; known keys: audit, pods`,
		},
	},
	{
		"a server of enrolment without a scheme",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nenroll: 10.77.0.2:8080"}},
		[]string{
			`cluster.yaml:7:9: error: "10.77.0.2:8080" is not where a ` + "`spore serve`" + ` answers; write http://ADDRESS:PORT/, such as http://10.77.0.2:8080/, or remove enroll`,
		},
	},
	{
		"a server of enrolment with TLS",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nenroll: https://10.77.0.2/"}},
		[]string{
			`cluster.yaml:7:9: error: "https://10.77.0.2/" is not where a ` + "`spore serve`" + ` answers; write http://ADDRESS:PORT/, such as http://10.77.0.2:8080/, or remove enroll`,
		},
	},
	{
		"a server of enrolment with a user",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nenroll: 'http://anna@10.77.0.2/'"}},
		[]string{
			`cluster.yaml:7:9: error: "http://anna@10.77.0.2/" is not where a ` + "`spore serve`" + ` answers; write http://ADDRESS:PORT/, such as http://10.77.0.2:8080/, or remove enroll`,
		},
	},
	{
		"a server of enrolment with a question",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nenroll: 'http://10.77.0.2/?'"}},
		[]string{
			`cluster.yaml:7:9: error: "http://10.77.0.2/?" is not where a ` + "`spore serve`" + ` answers; write http://ADDRESS:PORT/, such as http://10.77.0.2:8080/, or remove enroll`,
		},
	},
	{
		"a server of enrolment that is empty",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nenroll: ''"}},
		[]string{
			`cluster.yaml:7:9: error: "" is not where a ` + "`spore serve`" + ` answers; write http://ADDRESS:PORT/, such as http://10.77.0.2:8080/, or remove enroll`,
		},
	},
	{
		"a server of enrolment with a path",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nenroll: http://10.77.0.2:8080/netboot/"}},
		[]string{
			`cluster.yaml:7:9: error: "http://10.77.0.2:8080/netboot/" has a path, and ` + "`spore serve`" + ` answers at the top alone; write http://10.77.0.2:8080/`,
		},
	},
	{
		"a server of enrolment at port 0",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nenroll: http://10.77.0.2:0/"}},
		[]string{
			`cluster.yaml:7:9: error: "0" is not a port; write 1 to 65535, or leave it out for 80`,
		},
	},
	{
		"a server of enrolment at no port",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nenroll: http://10.77.0.2:/"}},
		[]string{
			`cluster.yaml:7:9: error: "" is not a port; write 1 to 65535, or leave it out for 80`,
		},
	},
	{
		"a server of enrolment that is no name",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nenroll: http://serve_here/"}},
		[]string{
			`cluster.yaml:7:9: error: "serve_here" is neither an IPv4 address nor a DNS name; write http://ADDRESS:PORT/, such as http://10.77.0.2:8080/`,
		},
	},
	{
		"a server of enrolment at an address that is none",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nenroll: http://10.77.0.256/"}},
		[]string{
			`cluster.yaml:7:9: error: "10.77.0.256" is neither an IPv4 address nor a DNS name; write http://ADDRESS:PORT/, such as http://10.77.0.2:8080/`,
		},
	},
	{
		"a server of enrolment on the machine itself",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nenroll: http://127.0.0.1:8080/"}},
		[]string{
			`cluster.yaml:7:9: error: the server of enroll 127.0.0.1 is not the address of one machine in a network; write one of its subnet`,
		},
	},
	{
		"a server of enrolment at an IPv6 address",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nenroll: 'http://[fd00:77::2]:8080/'"}},
		[]string{
			`cluster.yaml:7:9: error: fd00:77::2 is an IPv6 address, and ` + "`spore serve`" + ` answers at an IPv4 address alone; write that`,
		},
	},
	{
		"a server of enrolment in the pod network",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nenroll: http://10.244.0.9/"}},
		[]string{
			`cluster.yaml:7:9: error: the server of enroll 10.244.0.9 lies inside 10.244.0.0/16, which Kubernetes gives to pods and services; choose another network for one of them`,
		},
	},
	{
		"a server of enrolment that is a node",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nenroll: http://10.77.0.15/"}},
		[]string{
			`cluster.yaml:37:11: error: the address 10.77.0.15 is that of the server of enroll; give the node its own address`,
			`nodes/storage-01.yaml:9:17: error: the address 10.77.0.15 is that of the server of enroll; give the node its own address`,
		},
	},
	{
		"updates from nowhere",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nupdates:\n  from: []"}},
		[]string{
			`cluster.yaml:8:9: error: there is no address of updates; write one such as https://updates.example/plant, or remove updates`,
		},
	},
	{
		"updates without where from",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nupdates:\n  every: 60"}},
		[]string{
			`cluster.yaml:8:3: error: the key "from" is missing; add it and write [] for an empty list`,
		},
	},
	{
		"updates each week and a minute",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nupdates:\n  from: [https://updates.example]\n  every: 10081"}},
		[]string{
			`cluster.yaml:9:10: error: every 10081 is out of bounds; write 0 to 10080`,
		},
	},
	{
		"updates from a folder of the machine",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nupdates:\n  from: [/srv/updates]"}},
		[]string{
			`cluster.yaml:8:10: error: "/srv/updates" is not the address of a folder; write https://HOST/PATH or http://HOST/PATH`,
		},
	},
	{
		"updates by another protocol",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nupdates:\n  from: ['ftp://updates.example/plant']"}},
		[]string{
			`cluster.yaml:8:10: error: "ftp://updates.example/plant" is not the address of a folder; write https://HOST/PATH or http://HOST/PATH`,
		},
	},
	{
		"updates with a password",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nupdates:\n  from: ['https://anna:secret@updates.example']"}},
		[]string{
			`cluster.yaml:8:11: error: this line holds a URL with a user and password; it would be readable in every image, also in a comment: put it into the bundle and name it by secretRef`,
		},
	},
	{
		"updates with a user",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nupdates:\n  from: ['https://anna@updates.example']"}},
		[]string{
			`cluster.yaml:8:10: error: the address of updates has a user; remove it: updates hold no secret and are signed`,
		},
	},
	{
		"updates from a search",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nupdates:\n  from: ['https://updates.example/?plant']"}},
		[]string{
			`cluster.yaml:8:10: error: "https://updates.example/?plant" has a ? or a #, behind which no folder is; write https://HOST/PATH`,
		},
	},
	{
		"updates twice from one place",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nupdates:\n  from: ['https://updates.example', 'https://updates.example']"}},
		[]string{
			`cluster.yaml:8:37: error: the address "https://updates.example" exists already, at cluster.yaml:8; remove one`,
		},
	},
	{
		"updates from nine places",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.example\nupdates:\n  from: ['http://u0', 'http://u1', 'http://u2', 'http://u3', 'http://u4', 'http://u5', 'http://u6', 'http://u7', 'http://u8']"}},
		[]string{
			`cluster.yaml:8:9: error: there are 9 addresses of updates, and 8 are the most; remove some`,
		},
	},
	{
		"a domain that is no DNS name",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant..example"}},
		[]string{
			`cluster.yaml:6:9: error: the domain "plant..example" is not a DNS name; write labels of lower-case letters, digits and - with dots between, such as plant.example`,
		},
	},
	{
		"a domain of multicast DNS",
		[]edit{{"cluster.yaml", "domain: plant.example", "domain: plant.local"}},
		[]string{
			`cluster.yaml:6:9: warning: the domain "plant.local" ends in .local, which belongs to multicast DNS (RFC 6762): machines will ask the wire instead of the DNS server; choose another`,
		},
	},
	{
		"a subnet that is no network",
		[]edit{{"cluster.yaml", "[10.77.0.0/24]", "[10.77.0.0]"}},
		[]string{
			`cluster.yaml:8:17: error: "10.77.0.0" is not a network; write address/length such as 10.77.0.0/24`,
		},
	},
	{
		"a subnet with host bits",
		[]edit{{"cluster.yaml", "[10.77.0.0/24]", "[10.77.0.7/24]"}},
		[]string{
			`cluster.yaml:8:17: error: 10.77.0.7/24 is an address inside a network; write the network itself, 10.77.0.0/24`,
		},
	},
	{
		"two subnets of one family",
		[]edit{{"cluster.yaml", "[10.77.0.0/24]", "[10.77.0.0/24, 10.78.0.0/24]"}},
		[]string{
			`cluster.yaml:8:31: error: 10.78.0.0/24 is the second IPv4 network of nodeSubnets after 10.77.0.0/24; write at most one for each address family`,
		},
	},
	{
		"a subnet without room",
		[]edit{{"cluster.yaml", "[10.77.0.0/24]", "[10.77.0.0/24, \"fd00::/127\"]"}},
		[]string{
			`cluster.yaml:8:31: error: fd00::/127 has no room for two machines; write a shorter prefix length`,
		},
	},
	{
		"a subnet that is multicast",
		[]edit{{"cluster.yaml", "[10.77.0.0/24]", "[10.77.0.0/24, \"ff00::/8\"]"}},
		[]string{
			`cluster.yaml:8:31: error: ff00::/8 cannot hold addresses of machines; write a private network such as 10.77.0.0/24`,
		},
	},
	{
		"pods in the node subnet",
		[]edit{{"cluster.yaml", "podCIDRs: [10.244.0.0/16]", "podCIDRs: [10.77.0.0/16]"}},
		[]string{
			`cluster.yaml:12:14: error: 10.77.0.0/16 of podCIDRs overlaps 10.77.0.0/24 of nodeSubnets; packets would go to the wrong network: choose separate networks`,
		},
	},
	{
		"services in the pod network",
		[]edit{{"cluster.yaml", "serviceCIDRs: [10.96.0.0/16]", "serviceCIDRs: [10.244.8.0/24]"}},
		[]string{
			`cluster.yaml:13:18: error: 10.244.8.0/24 of serviceCIDRs overlaps 10.244.0.0/16 of podCIDRs; packets would go to the wrong network: choose separate networks`,
		},
	},
	{
		"a gateway outside the subnet",
		[]edit{{"cluster.yaml", "gateways: [10.77.0.2]", "gateways: [10.78.0.2]"}},
		[]string{
			`cluster.yaml:9:14: error: the gateway 10.78.0.2 lies outside the node subnets [10.77.0.0/24]; choose an address inside, or correct network.nodeSubnets`,
		},
	},
	{
		"two gateways of one family",
		[]edit{{"cluster.yaml", "gateways: [10.77.0.2]", "gateways: [10.77.0.2, 10.77.0.3]"}},
		[]string{
			`cluster.yaml:9:25: error: 10.77.0.3 is the second IPv4 gateway; write at most one for each address family`,
		},
	},
	{
		"a gateway that is the broadcast address",
		[]edit{{"cluster.yaml", "gateways: [10.77.0.2]", "gateways: [10.77.0.255]"}},
		[]string{
			`cluster.yaml:9:14: error: the gateway 10.77.0.255 is the network or broadcast address of 10.77.0.0/24; choose one between`,
		},
	},
	{
		"a nameserver that is no address",
		[]edit{{"cluster.yaml", "nameservers: [10.77.0.16]", "nameservers: [dns.example]"}},
		[]string{
			`cluster.yaml:10:17: error: the nameserver "dns.example" is not an IP address; write it as 10.77.0.5 or fd00::5, without prefix length`,
		},
	},
	{
		"a nameserver twice",
		[]edit{{"cluster.yaml", "nameservers: [10.77.0.16]", "nameservers: [10.77.0.16, 10.77.0.16]"}},
		[]string{
			`cluster.yaml:10:29: error: the nameserver "10.77.0.16" exists already, at cluster.yaml:10; remove one`,
		},
	},
	{
		"more nameservers than are asked",
		[]edit{{"cluster.yaml", "nameservers: [10.77.0.16]", "nameservers: [10.77.0.16, 9.9.9.9, 9.9.9.10, 9.9.9.11]"}},
		[]string{
			`cluster.yaml:10:48: warning: 9.9.9.11 and what follows is never asked: programs read the first 3 nameservers only (resolv.conf(5))`,
		},
	},
	{
		"a nameserver that is a node without DNS",
		[]edit{{"cluster.yaml", "nameservers: [10.77.0.16]", "nameservers: [10.77.0.12]"}},
		[]string{
			`cluster.yaml:23:11: error: the address 10.77.0.12 is in network.nameservers, but node worker-01 has no role dns-server: nothing would answer; add the role or correct the address`,
		},
	},
	{
		"a nameserver in the pod network",
		[]edit{{"cluster.yaml", "nameservers: [10.77.0.16]", "nameservers: [10.244.0.9]"}},
		[]string{
			`cluster.yaml:10:17: error: the nameserver 10.244.0.9 lies inside 10.244.0.0/16, which Kubernetes gives to pods and services; choose another network for one of them`,
		},
	},
	{
		"a time server that is not a name",
		[]edit{{"cluster.yaml", "ntpServers: [10.77.0.2]", "ntpServers: [\"ntp pool\"]"}},
		[]string{
			`cluster.yaml:11:16: error: the time server "ntp pool" is neither an IP address nor a DNS name; write one such as 10.77.0.2 or ntp.example.org`,
		},
	},
	{
		"a time server that is a node",
		[]edit{{"cluster.yaml", "ntpServers: [10.77.0.2]", "ntpServers: [10.77.0.15]"}},
		[]string{
			`cluster.yaml:36:11: warning: the address 10.77.0.15 is in network.ntpServers, but nodes ask each other by themselves; name time servers outside of the cluster`,
		},
	},
	{
		"a VIP that is a node address",
		[]edit{{"cluster.yaml", "controlPlaneEndpoint: 10.77.0.100", "controlPlaneEndpoint: 10.77.0.11"}},
		[]string{
			`cluster.yaml:19:11: error: the address 10.77.0.11 is the control-plane endpoint (VIP); give the node its own address`,
		},
	},
	{
		"a VIP that is the gateway",
		[]edit{{"cluster.yaml", "controlPlaneEndpoint: 10.77.0.100", "controlPlaneEndpoint: 10.77.0.2"}},
		[]string{
			`cluster.yaml:14:25: error: controlPlaneEndpoint 10.77.0.2 is the gateway; choose a free address of the node subnet`,
		},
	},
	{
		"a VIP outside the subnet",
		[]edit{{"cluster.yaml", "controlPlaneEndpoint: 10.77.0.100", "controlPlaneEndpoint: 10.99.0.1"}},
		[]string{
			`cluster.yaml:14:25: error: controlPlaneEndpoint 10.99.0.1 lies outside the node subnets [10.77.0.0/24]; choose an address inside, or correct network.nodeSubnets`,
		},
	},
	{
		"a VIP with a port",
		[]edit{{"cluster.yaml", "controlPlaneEndpoint: 10.77.0.100", "controlPlaneEndpoint: 10.77.0.100:6443"}},
		[]string{
			`cluster.yaml:14:25: error: controlPlaneEndpoint "10.77.0.100:6443" is not an IP address; write it as 10.77.0.5 or fd00::5, without prefix length`,
		},
	},
	{
		"a VIP without Kubernetes",
		[]edit{
			{"cluster.yaml", "services: [kubernetes, ", "services: ["},
			{"cluster.yaml", "roles: [master]", "roles: []"},
			{"cluster.yaml", "roles: [worker]", "roles: []"},
			{"cluster.yaml", "roles: [worker, ceph-osd]", "roles: [ceph-osd]"},
			{"nodes/worker-02.yaml", "labels:\n  plant.example/hall: north\ntaints: [\"plant.example/storage=yes:PreferNoSchedule\"]\n", ""},
			{"services/kubernetes.yaml", "", remove},
		},
		[]string{
			`cluster.yaml:14:25: warning: controlPlaneEndpoint has no use without the service kubernetes; remove it or add the service`,
		},
	},
}
