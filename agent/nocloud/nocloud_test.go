package nocloud

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/agent/nic"
	"spore/cluster/spec"
)

// disks is a Source with these devices: their content by their names. Names that begin with another's are its partitions.
func disks(t testing.TB, devices map[string][]byte) Source {
	t.Helper()
	dev, sys := t.TempDir(), fstest.MapFS{"block": {Mode: fs.ModeDir}}
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for name, content := range devices {
		require.NoError(t, os.WriteFile(filepath.Join(dev, name), content, 0o600))
		disk := strings.TrimRight(name, "0123456789")
		if disk == "sr" || disk == name {
			sys["block/"+name] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("../devices/" + name)}
			sys["devices/"+name+"/size"] = text("0")
		} else {
			sys["class/block/"+disk+"/"+name+"/partition"] = text("1")
		}
	}
	return Source{Sys: sys, Dev: dev}
}

// disc is an ISO 9660 volume with files.
func disc(t testing.TB, label string, files map[string]string) []byte {
	t.Helper()
	return made(t, files, func(dir, out string) []*exec.Cmd {
		return []*exec.Cmd{exec.Command("xorriso", "-as", "mkisofs", "-V", label, "-J", "-R", "-o", out, dir)}
	})
}

// stick is a FAT with files.
func stick(t testing.TB, label string, files map[string]string) []byte {
	t.Helper()
	return made(t, files, func(dir, out string) []*exec.Cmd {
		list := []*exec.Cmd{exec.Command("mkfs.vfat", "-C", "-n", label, out, "1440")}
		for name := range files {
			list = append(list, exec.Command("mcopy", "-i", out, filepath.Join(dir, name), "::"+name))
		}
		return list
	})
}

func made(t testing.TB, files map[string]string, how func(dir, out string) []*exec.Cmd) []byte {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "volume")
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	for _, cmd := range how(dir, out) {
		text, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\nrun make deps", text)
	}
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	return data
}

const userData = "#cloud-config\nspore:\n  node: edge-01\npackages: [nginx]\nruncmd:\n- [rm, -rf, /]\n"

func TestAVolumeIsFoundByItsLabel(t *testing.T) {
	files := map[string]string{MetaData: "instance-id: i-1\nlocal-hostname: Edge-01.plant.example\n", UserData: userData}
	big := map[string]string{UserData: "#" + strings.Repeat("x", MaxFile)}
	other := make([]byte, 1<<20)
	want := Found{InstanceID: "i-1", Hostname: "edge-01.plant.example", Node: "edge-01", NotTaken: []string{"user-data: packages", "user-data: runcmd"}}
	for name, tc := range map[string]struct {
		devices map[string][]byte
		from    []string
		problem string
	}{
		"a disc":                       {map[string][]byte{"sr0": disc(t, "cidata", files), "vda": other}, []string{"the volume /dev/sr0 (iso9660)"}, ""},
		"a whole disk with FAT":        {map[string][]byte{"vda": other, "vdb": stick(t, "CIDATA", files)}, []string{"the volume /dev/vdb (vfat)"}, ""},
		"a partition":                  {map[string][]byte{"sda": other, "sda1": stick(t, "CIDATA", files)}, []string{"the volume /dev/sda1 (vfat)"}, ""},
		"an ISO on a disk":             {map[string][]byte{"vdb": disc(t, "CIDATA", files)}, []string{"the volume /dev/vdb (iso9660)"}, ""},
		"two volumes that agree":       {map[string][]byte{"sr0": disc(t, "cidata", files), "vdb": stick(t, "CIDATA", files)}, []string{"the volume /dev/sr0 (iso9660)", "the volume /dev/vdb (vfat)"}, ""},
		"another label":                {map[string][]byte{"sr0": disc(t, "config-2", files), "vdb": stick(t, "CIDATA2", files)}, nil, ""},
		"a label in capitals and not":  {map[string][]byte{"sr0": disc(t, "CiData", files)}, nil, ""},
		"nothing":                      {map[string][]byte{"vda": other, "vdb": nil}, nil, ""},
		"a file that is too large":     {map[string][]byte{"sr0": disc(t, "cidata", big)}, []string{"the volume /dev/sr0 (iso9660)"}, "user-data has 1048577 bytes, more than 1048576"},
		"a large file beside a volume": {map[string][]byte{"sr0": disc(t, "cidata", files), "sr1": disc(t, "cidata", big)}, []string{"the volume /dev/sr0 (iso9660)", "the volume /dev/sr1 (iso9660)"}, "more than 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Find(Options{Source: disks(t, tc.devices), Volumes: true})
			require.Equal(t, tc.from, got.From)
			require.Equal(t, len(tc.from) > 0, got.Any())
			switch {
			case tc.problem != "":
				require.Contains(t, got.Problem, tc.problem)
				require.Empty(t, got.Node)
			case len(tc.from) == 0:
				require.Equal(t, Found{}, got)
			default:
				want.From = tc.from
				require.Equal(t, want, got)
			}
		})
	}
	require.Equal(t, Found{}, Find(Options{Source: disks(t, map[string][]byte{"sr0": disc(t, "cidata", files)})}), "volumes are not looked for")
}

func TestOnlyWhatCanBeTakenOutIsLookedAt(t *testing.T) {
	files := map[string]string{UserData: "spore: {node: edge-01}"}
	for name, tc := range map[string]struct {
		device, path, file, content string
		found                       bool
	}{
		"a disc":           {"sr0", "devices/ata1/sr0", "size", "0", true},
		"a built-in disk":  {"sda", "devices/ata1/sda", "removable", "0\n", false},
		"a USB disk":       {"sda", "devices/pci0000:00/usb1/1-1/sda", "removable", "0\n", true},
		"a card reader":    {"sda", "devices/ata1/sda", "removable", "1\n", true},
		"a memory card":    {"mmcblk0", "devices/mmc0/mmcblk0", "device/type", "SD\n", true},
		"memory on a card": {"mmcblk0", "devices/mmc0/mmcblk0", "device/type", "MMC\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := disks(t, map[string][]byte{tc.device: disc(t, "cidata", files)})
			s.Sys = fstest.MapFS{
				"block":                 {Mode: fs.ModeDir},
				"block/" + tc.device:    {Mode: fs.ModeSymlink, Data: []byte("../" + tc.path)},
				tc.path + "/size":       {Data: []byte("0")},
				tc.path + "/" + tc.file: {Data: []byte(tc.content)},
			}
			require.Equal(t, "edge-01", Find(Options{Source: s, Volumes: true}).Node)
			s.Removable = true
			require.Equal(t, tc.found, Find(Options{Source: s, Volumes: true}).Node != "")
		})
	}
}

func TestVolumesThatDisagreeGiveNothing(t *testing.T) {
	one := map[string]string{MetaData: "local-hostname: a", UserData: "spore: {node: edge-01}"}
	for name, tc := range map[string]struct {
		other    map[string]string
		about    string
		disputed bool
	}{
		"another node":      {map[string]string{MetaData: "local-hostname: a", UserData: "spore: {node: edge-02}"}, "node", true},
		"no node":           {map[string]string{MetaData: "local-hostname: a"}, "node", true},
		"another name":      {map[string]string{MetaData: "local-hostname: b", UserData: "spore: {node: edge-01}"}, "local-hostname", true},
		"a network besides": {map[string]string{MetaData: "local-hostname: a", UserData: "spore: {node: edge-01}", NetworkConfig: "{version: 2, ethernets: {eth0: {dhcp4: true}}}"}, "network", true},
		"a bundle besides":  {map[string]string{MetaData: "local-hostname: a", UserData: "spore: {node: edge-01, bundle: eA==}"}, "bundle", true},
	} {
		t.Run(name, func(t *testing.T) {
			got := Find(Options{Source: disks(t, map[string][]byte{"sr0": disc(t, "cidata", one), "vdb": stick(t, "CIDATA", tc.other)}), Volumes: true})
			require.Equal(t, "the volume /dev/sr0 (iso9660) and the volume /dev/vdb (vfat) disagree about the "+tc.about+", so nothing of them was taken; take one of them away", got.Problem)
			require.Equal(t, tc.disputed, got.Disputed)
			got.From, got.Problem, got.Disputed = nil, "", false
			require.Equal(t, Found{}, got)
		})
	}
}

func TestVolumesAreBounded(t *testing.T) {
	devices := map[string][]byte{}
	for i := range maxVolumes {
		devices[fmt.Sprintf("sda%d", i+1)] = disc(t, "cidata", map[string]string{"user-data": "spore: {node: edge-01}"})
	}
	devices["sda"] = nil
	found := Find(Options{Source: disks(t, devices), Volumes: true})
	require.Empty(t, found.Problem)
	require.Equal(t, "edge-01", found.Node)

	devices["sda100"] = devices["sda1"]
	found = Find(Options{Source: disks(t, devices), Volumes: true})
	require.Contains(t, found.Problem, "more than 8 volumes with the label CIDATA")
	require.Empty(t, found.Node)
}

func TestSerialNumberAndCredentialsAreRead(t *testing.T) {
	lay := func(files map[string]string) string {
		dir := t.TempDir()
		for name, content := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		}
		return dir
	}
	const serial, firmware = "the serial number of SMBIOS", "the credentials of firmware or hypervisor"
	for name, tc := range map[string]struct {
		options Options
		want    Found
		problem string
	}{
		"another serial number":      {Options{Serial: "CZ1234;h=edge-01"}, Found{}, ""},
		"the mark alone":             {Options{Serial: "ds=nocloud"}, Found{From: []string{serial}}, ""},
		"short keys":                 {Options{Serial: "ds=nocloud;h=edge-01;i=i-1"}, Found{From: []string{serial}, Hostname: "edge-01", InstanceID: "i-1"}, ""},
		"long keys":                  {Options{Serial: "ds=nocloud;local-hostname=edge-01;instance-id=i-1;"}, Found{From: []string{serial}, Hostname: "edge-01", InstanceID: "i-1"}, ""},
		"an address is not asked":    {Options{Serial: "ds=nocloud-net;s=http://10.0.0.1/"}, Found{From: []string{serial}, NotTaken: []string{"serial number: s"}}, ""},
		"a strange host name":        {Options{Serial: "ds=nocloud;h=a b"}, Found{}, "is not a host name"},
		"credentials":                {Options{Credentials: lay(map[string]string{"spore.user-data": userData, "spore.node": "x"})}, Found{From: []string{firmware}, Node: "edge-01", NotTaken: []string{"user-data: packages", "user-data: runcmd"}}, ""},
		"no credentials":             {Options{Credentials: lay(map[string]string{"spore.node": "x"})}, Found{}, ""},
		"both add to each other":     {Options{Serial: "ds=nocloud;h=a", Credentials: lay(map[string]string{"spore.user-data": "spore: {node: b}"})}, Found{From: []string{serial, firmware}, Hostname: "a", Node: "b"}, ""},
		"both disagree":              {Options{Serial: "ds=nocloud;h=a", Credentials: lay(map[string]string{"spore.meta-data": "local-hostname: b"})}, Found{}, "disagree about the local-hostname"},
		"a credential that is large": {Options{Credentials: lay(map[string]string{"spore.user-data": strings.Repeat("x", MaxFile+1)})}, Found{}, "it is no text"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Find(tc.options)
			if tc.problem != "" {
				require.Contains(t, got.Problem, tc.problem)
				require.Empty(t, got.Hostname+got.Node)
				return
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestDocuments(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
	for name, tc := range map[string]struct {
		file, text string
		want       Found
		problem    string
	}{
		"meta-data in JSON":               {MetaData, `{"instance-id": "i-1", "local-hostname": "a"}`, Found{InstanceID: "i-1", Hostname: "a"}, ""},
		"other keys of meta-data":         {MetaData, "public-keys: [x]\nnetwork-interfaces: |\n  auto lo\n", Found{NotTaken: []string{"meta-data: network-interfaces", "meta-data: public-keys"}}, ""},
		"a number as instance-id":         {MetaData, "instance-id: 7", Found{InstanceID: "7"}, ""},
		"an empty document":               {UserData, "\n", Found{}, ""},
		"comments alone":                  {UserData, "#cloud-config\n", Found{}, ""},
		"a bundle in lines":               {UserData, "spore:\n  bundle: |\n    " + base64.StdEncoding.EncodeToString([]byte("secret"))[:4] + "\n    " + base64.StdEncoding.EncodeToString([]byte("secret"))[4:] + "\n", Found{Bundle: []byte("secret")}, ""},
		"a bundle that is no base64":      {UserData, "spore: {bundle: '%'}", Found{}, "in base64"},
		"a token":                         {UserData, "spore: {token: abc}", Found{NotTaken: []string{"user-data: spore.token"}}, ""},
		"no key of ours":                  {UserData, "users: [root]", Found{NotTaken: []string{"user-data: users"}}, ""},
		"a script":                        {UserData, "#!/bin/sh\nrm -rf /\n", Found{NotTaken: []string{"user-data: a script"}}, ""},
		"several parts":                   {UserData, "Content-Type: multipart/mixed; boundary=x\n", Found{NotTaken: []string{"user-data: several parts"}}, ""},
		"compressed":                      {UserData, "\x1f\x8b\x08", Found{NotTaken: []string{"user-data: a compressed document"}}, ""},
		"vendor-data":                     {vendorData, "#cloud-config\n", Found{NotTaken: []string{"vendor-data"}}, ""},
		"aliases elsewhere are left":      {UserData, bomb + "spore: {node: a}", Found{Node: "a", NotTaken: []string{"user-data: a", "user-data: b", "user-data: c"}}, ""},
		"an alias as a node":              {UserData, "a: &a x\nspore: {node: *a}", Found{}, "an alias is not followed"},
		"an alias as all":                 {UserData, "a: &a {node: x}\nspore: *a", Found{}, "an alias is not followed"},
		"a merge":                         {UserData, "a: &a {node: x}\nspore:\n  <<: *a\n", Found{}, "a key is to be a text"},
		"a key twice":                     {UserData, "spore: {node: a}\nspore: {node: b}", Found{}, `the key "spore" is there twice`},
		"a node that is a path":           {UserData, "spore: {node: ../x}", Found{}, "is not the name of a node"},
		"a node with a domain":            {UserData, "spore: {node: a.b}", Found{}, "is not the name of a node"},
		"a list for a node":               {UserData, "spore: {node: [a]}", Found{}, "one value"},
		"a list for the document":         {UserData, "[spore]", Found{}, "a mapping"},
		"no YAML":                         {UserData, "spore: {", Found{}, "it is no YAML"},
		"too deep":                        {UserData, "a: " + strings.Repeat("[", 30) + strings.Repeat("]", 30), Found{}, "more than 24 levels"},
		"too many values":                 {UserData, "a: [" + strings.Repeat("x,", maxValues) + "]", Found{}, "20000 values"},
		"a zero":                          {UserData, "spore: {node: a}\x00", Found{}, "it is no text"},
		"a key that is told to a console": {UserData, "\"\\e[2J\": x", Found{NotTaken: []string{"user-data: ?[2J"}}, ""},
		"an instance-id for a terminal":   {MetaData, "instance-id: \"\\e[2J\"", Found{}, "ASCII"},
	} {
		t.Run(name, func(t *testing.T) {
			got := together([]Found{parse("x", map[string][]byte{tc.file: []byte(tc.text)})})
			if tc.problem != "" {
				require.Contains(t, got.Problem, tc.problem)
				require.Contains(t, got.Problem, "nothing was taken: x: "+tc.file)
				require.Empty(t, got.Node)
				require.Nil(t, got.Bundle)
				return
			}
			tc.want.From = []string{"x"}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestNetworkConfig(t *testing.T) {
	const macA, macB = "52:54:00:77:00:0b", "52:54:00:77:00:0c"
	cards := []nic.Card{{MAC: macA, Name: "enp1s0"}, {MAC: macB, Name: "enp2s0"}}
	for name, tc := range map[string]struct {
		text        string
		want        []spec.Interface
		nameservers []string
		search      string
		notTaken    []string
		problem     string
	}{
		"version 2, static": {
			text: "network:\n  version: 2\n  ethernets:\n    id0:\n      match: {macaddress: '52:54:00:77:00:0B'}\n      addresses: [10.77.0.11/24, 'fd00::11/64']\n      gateway4: 10.77.0.1\n" +
				"      routes: [{to: '::/0', via: 'fd00::1'}]\n      nameservers: {addresses: [10.77.0.2], search: [plant.example]}\n      mtu: 9000\n",
			want:        []spec.Interface{{MAC: macA, Addresses: []string{"10.77.0.11/24", "fd00::11/64"}, Gateways: []string{"10.77.0.1", "fd00::1"}, MTU: 9000}},
			nameservers: []string{"10.77.0.2"}, search: "plant.example",
		},
		"version 2 by the name of a card":      {text: "{version: 2, ethernets: {enp2s0: {dhcp4: true}}}", want: []spec.Interface{{MAC: macB, DHCP: true}}},
		"version 2 by a pattern":               {text: "{version: 2, ethernets: {a: {match: {name: 'enp1*'}, dhcp4: yes}}}", want: []spec.Interface{{MAC: macA, DHCP: true}}},
		"version 2 by a pattern of both":       {text: "{version: 2, ethernets: {a: {match: {name: 'en*'}, dhcp4: yes}}}", notTaken: []string{"network-config: a stands for 2 cards"}},
		"version 2, one card twice":            {text: "{version: 2, ethernets: {enp1s0: {dhcp4: true}, a: {match: {macaddress: '" + macA + "'}}}}", want: []spec.Interface{{MAC: macA, DHCP: true}}, notTaken: []string{"network-config: a is the same card as enp1s0"}},
		"a card that is not there":             {text: "{version: 2, ethernets: {eth0: {dhcp4: true}}}", notTaken: []string{"network-config: eth0 is no card of this machine"}},
		"version 2, what there is not":         {text: "{version: 2, renderer: networkd, bonds: {b: {}}, bridges: {}, vlans: {}, wifis: {}, ethernets: {enp1s0: {dhcp4: true, dhcp6: true, set-name: x, optional: true, routes: [{to: 10.0.0.0/8, via: 10.77.0.9}], match: {name: enp1s0, driver: x}}}}", want: []spec.Interface{{MAC: macA, DHCP: true}}, notTaken: []string{"network-config: bonds", "network-config: bridges", "network-config: enp1s0.dhcp6", "network-config: enp1s0.match.driver", "network-config: enp1s0.optional", "network-config: enp1s0.set-name", "network-config: enp1s0: the route to 10.0.0.0/8", "network-config: renderer", "network-config: vlans", "network-config: wifis"}},
		"version 2, an address with options":   {text: "{version: 2, ethernets: {enp1s0: {addresses: [10.0.0.2/24, {10.0.0.3/24: {label: x}}]}}}", want: []spec.Interface{{MAC: macA, Addresses: []string{"10.0.0.2/24"}}}, notTaken: []string{"network-config: enp1s0: an address with options"}},
		"version 1, static, as Proxmox has it": {text: "version: 1\nconfig:\n    - type: physical\n      name: eth0\n      mac_address: '52:54:00:77:00:0b'\n      subnets:\n      - type: static\n        address: '10.77.0.11'\n        netmask: '255.255.255.0'\n        gateway: '10.77.0.1'\n    - type: nameserver\n      address:\n      - '10.77.0.2'\n      search:\n      - 'plant.example'\n", want: []spec.Interface{{MAC: macA, Addresses: []string{"10.77.0.11/24"}, Gateways: []string{"10.77.0.1"}}}, nameservers: []string{"10.77.0.2"}, search: "plant.example"},
		"version 1, DHCP by name":              {text: "{version: 1, config: [{type: physical, name: enp1s0, mtu: 1400, subnets: [{type: dhcp}]}]}", want: []spec.Interface{{MAC: macA, DHCP: true, MTU: 1400}}},
		"version 1, what there is not":         {text: "{version: 1, config: [{type: bond, name: bond0}, {type: vlan, name: v}, {type: physical, name: enp1s0, accept-ra: false, subnets: [{type: dhcp6}, {type: static, address: 10.0.0.2/24, dns_nameservers: [10.0.0.3], dns_search: a, scope: x, routes: [{network: 0.0.0.0, netmask: 0.0.0.0, gateway: 10.0.0.1}]}]}]}", want: []spec.Interface{{MAC: macA, Addresses: []string{"10.0.0.2/24"}, Gateways: []string{"10.0.0.1"}}}, nameservers: []string{"10.0.0.3"}, search: "a", notTaken: []string{"network-config: bond bond0", "network-config: enp1s0.accept-ra", "network-config: enp1s0.subnets.scope", "network-config: enp1s0: subnet of type dhcp6", "network-config: vlan v"}},
		"disabled":                             {text: "config: disabled", notTaken: []string{"network-config: config: disabled"}},
		"no version":                           {text: "ethernets: {}", problem: "its version is"},
		"another version":                      {text: "version: 3", problem: "its version is"},
		"an address without a length":          {text: "{version: 2, ethernets: {enp1s0: {addresses: [10.0.0.2]}}}", problem: "with a prefix length"},
		"an address of the loopback":           {text: "{version: 2, ethernets: {enp1s0: {addresses: [127.0.0.2/8]}}}", problem: "not an address of a card"},
		"an address in lines":                  {text: "{version: 2, ethernets: {enp1s0: {addresses: [\"10.0.0.2/24\\nGateway=1\"]}}}", problem: "not an address of a card"},
		"a router that is a name":              {text: "{version: 2, ethernets: {enp1s0: {gateway4: router}}}", problem: "not an address of a machine"},
		"a strange netmask":                    {text: "{version: 1, config: [{type: physical, name: enp1s0, subnets: [{type: static, address: 10.0.0.2, netmask: 255.0.255.0}]}]}", problem: "no netmask"},
		"a MAC that YAML took for a number":    {text: "{version: 2, ethernets: {a: {match: {macaddress: 1}}}}", problem: "put it in quotes"},
		"an MTU of nothing":                    {text: "{version: 2, ethernets: {enp1s0: {mtu: 1}}}", problem: "not a number of 68 to 65535 bytes"},
		"a match of nothing":                   {text: "{version: 2, ethernets: {enp1s0: {match: {}}}}", problem: "macaddress or name"},
		"a name that is a path":                {text: "{version: 2, ethernets: {a: {match: {name: ../x}}}}", problem: "not the name of a card"},
		"too many cards":                       {text: "{version: 2, ethernets: {" + many("c%d: {dhcp4: true}", 65) + "}}", problem: "more than 64 cards"},
		"true that is a list":                  {text: "{version: 2, ethernets: {enp1s0: {dhcp4: [true]}}}", problem: "one value"},
	} {
		t.Run(name, func(t *testing.T) {
			got := together([]Found{parse("x", map[string][]byte{NetworkConfig: []byte(tc.text)})})
			if tc.problem != "" {
				require.Contains(t, got.Problem, tc.problem)
				require.Nil(t, got.Network)
				return
			}
			require.Empty(t, got.Problem)
			var interfaces []spec.Interface
			if got.Network != nil {
				var said []string
				interfaces, said = got.Network.Interfaces(cards)
				got.NotTaken = append(got.NotTaken, said...)
				require.Equal(t, tc.nameservers, got.Network.Nameservers)
				require.Equal(t, tc.search, got.Network.Search)
			}
			require.Equal(t, tc.want, interfaces)
			require.Equal(t, tc.notTaken, got.NotTaken)
		})
	}
}

func many(format string, n int) string {
	var list []string
	for i := range n {
		list = append(list, strings.ReplaceAll(format, "%d", string(rune('a'+i/26))+string(rune('a'+i%26))))
	}
	return strings.Join(list, ", ")
}

func TestWhatIsSaidOfADocumentHasNothingThatATerminalObeys(t *testing.T) {
	for name, document := range map[string]string{
		"a card":                 `{version: 2, ethernets: {"\e[2J\nnode edge-01": {mtu: 1}}}`,
		"a key":                  `{version: 2, "\e[2J": 1, ethernets: {"\e[2J": {"\e[2J": 1, "\e": {}}}}`,
		"a pattern":              `{version: 2, ethernets: {a: {match: {name: "\e[2J"}}}}`,
		"a version":              `{version: "\e[2J"}`,
		"a card of version 1":    `{version: 1, config: [{type: physical, name: "\e[2J", mac_address: "\e[2J"}]}`,
		"a kind of version 1":    `{version: 1, config: [{type: "\e[2J", name: "\e[2J"}]}`,
		"a key that comes twice": `{version: 2, "\e[2J": 1, "\e[2J": 2}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := parse("a volume", map[string][]byte{NetworkConfig: []byte(document)})
			said := strings.Join(append(f.NotTaken, f.Problem), "")
			require.NotEmpty(t, said)
			require.NotContains(t, said, "\x1b")
			require.NotContains(t, said, "\n")
		})
	}
}

func TestTheListOfWhatWasNotTakenIsBounded(t *testing.T) {
	got := together([]Found{parse("x", map[string][]byte{UserData: []byte("{" + many("%d: x", 100) + "}")})})
	require.Len(t, got.NotTaken, maxNotTaken+1)
	require.Equal(t, "and 68 more", got.NotTaken[maxNotTaken])
}

func TestTheAnswerFileOfAVolumeIsTakenAsItIs(t *testing.T) {
	one, other := map[string]string{Answers: "node: [\n"}, map[string]string{Answers: "node: x\n"}
	for what, tc := range map[string]struct {
		devices       map[string][]byte
		want, problem string
	}{
		"on one volume":             {map[string][]byte{"sr0": disc(t, "cidata", one)}, "node: [\n", ""},
		"the same on both":          {map[string][]byte{"sr0": disc(t, "cidata", one), "vdb": stick(t, "CIDATA", one)}, "node: [\n", ""},
		"on volumes that disagree":  {map[string][]byte{"sr0": disc(t, "cidata", one), "vdb": stick(t, "CIDATA", other)}, "", "disagree about the answer file"},
		"on one of two volumes":     {map[string][]byte{"sr0": disc(t, "cidata", one), "vdb": stick(t, "CIDATA", map[string]string{MetaData: "\n"})}, "", "disagree about the answer file"},
		"on a volume that is large": {map[string][]byte{"sr0": disc(t, "cidata", map[string]string{Answers: strings.Repeat("x", MaxFile+1)})}, "", "more than 1048576"},
	} {
		t.Run(what, func(t *testing.T) {
			got := Find(Options{Source: disks(t, tc.devices), Volumes: true})
			require.Equal(t, tc.want, string(got.Answers))
			require.Contains(t, got.Problem, tc.problem)
			require.Equal(t, tc.problem == "", got.Problem == "", got.Problem)
			require.Empty(t, got.NotTaken)
		})
	}
}

// FuzzParse reads whatever the documents may be: nothing of them is longer than it may be, and all is printable.
func FuzzParse(f *testing.F) {
	f.Add("instance-id: i-1\nlocal-hostname: a\n", userData, "{version: 2, ethernets: {eth0: {dhcp4: true, addresses: [10.0.0.2/24]}}}", "ds=nocloud;h=a")
	f.Add("{}", "spore: {node: a, bundle: eA==, token: x}", "{version: 1, config: [{type: physical, name: eth0, subnets: [{type: static, address: 10.0.0.2, netmask: 255.0.0.0}]}]}", "ds=nocloud;s=x")
	for _, d := range hostileDocuments {
		if len(d.text) < 1<<16 {
			f.Add(d.text, d.text, d.text, "ds=nocloud;h=\x1b[2J;"+d.problem)
		}
	}
	f.Add("a: &a [*a]", "<<: {spore: x}", "network: {config: disabled}", "ds=nocloud-net;=;;")
	f.Fuzz(func(t *testing.T, meta, user, network, serial string) {
		list := []Found{parse("x", map[string][]byte{MetaData: []byte(meta), UserData: []byte(user), NetworkConfig: []byte(network)})}
		if Announced(serial) {
			list = append(list, parseSerial(serial))
		}
		got := together(list)
		texts := append([]string{got.Hostname, got.Node, got.InstanceID}, got.NotTaken...)
		if got.Network != nil {
			interfaces, said := got.Network.Interfaces([]nic.Card{{MAC: "52:54:00:77:00:0b", Name: "eth0"}})
			texts = append(texts, said...)
			for _, i := range interfaces {
				texts = append(append(texts, i.Addresses...), i.Gateways...)
			}
			texts = append(append(texts, got.Network.Nameservers...), got.Network.Search)
		}
		require.LessOrEqual(t, len(got.NotTaken), maxNotTaken+1)
		for _, s := range texts {
			require.LessOrEqual(t, len(s), 253)
			require.NotContains(t, s, "\n")
			require.False(t, strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }), "%q", s)
		}
		if got.Problem != "" {
			require.Empty(t, got.Node+got.Hostname)
			require.Nil(t, got.Network)
		}
	})
}
