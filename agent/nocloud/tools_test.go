package nocloud

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	isowriter "github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/stretchr/testify/require"
)

// tool makes a volume of the files of a directory, as a tool of the field does.
type tool func(t *testing.T, dir, out string)

// command runs a program whose last arguments are the volume and the directory.
func command(program string, arguments ...string) tool {
	return func(t *testing.T, dir, out string) {
		text, err := exec.Command(program, append(arguments, "-o", out, dir)...).CombinedOutput()
		require.NoError(t, err, "%s\nrun make deps", text)
	}
}

// padded makes a volume larger, as one on storage that has blocks of its own.
func padded(how tool, size int64) tool {
	return func(t *testing.T, dir, out string) {
		how(t, dir, out)
		require.NoError(t, os.Truncate(out, size))
	}
}

// vfat makes a FAT of size bytes.
func vfat(size int64, arguments ...string) tool {
	return func(t *testing.T, dir, out string) {
		require.NoError(t, os.WriteFile(out, nil, 0o600))
		require.NoError(t, os.Truncate(out, size))
		text, err := exec.Command("mkfs.vfat", append(arguments, out)...).CombinedOutput()
		require.NoError(t, err, "%s\nrun make deps", text)
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		text, err = exec.Command("mcopy", append(append([]string{"-oi", out}, files...), "::")...).CombinedOutput()
		require.NoError(t, err, "%s", text)
	}
}

// goDiskfs makes a disc with the library that Go programs, such as Lima, make theirs with.
func goDiskfs(t *testing.T, dir, out string) {
	f, err := os.Create(out)
	require.NoError(t, err)
	defer f.Close()
	const size = 4 << 20
	require.NoError(t, f.Truncate(size))
	fs, err := isowriter.Create(file.New(f, false), size, 0, 2048, t.TempDir())
	require.NoError(t, err)
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, n := range names {
		data, err := os.ReadFile(filepath.Join(dir, n.Name()))
		require.NoError(t, err)
		to, err := fs.OpenFile("/"+n.Name(), os.O_CREATE|os.O_RDWR)
		require.NoError(t, err)
		_, err = io.Copy(to, strings.NewReader(string(data)))
		require.NoError(t, err)
		require.NoError(t, to.Close())
	}
	require.NoError(t, fs.Finalize(isowriter.FinalizeOptions{RockRidge: true, VolumeIdentifier: "cidata"}))
}

// TestVolumesOfTheToolsOfTheFieldAreRead has each tool's own arguments and documents: what is written to be taken is
// taken, and all else is named.
func TestVolumesOfTheToolsOfTheFieldAreRead(t *testing.T) {
	const node = "#cloud-config\nspore: {node: edge-01}\n"
	plain := map[string]string{MetaData: "instance-id: i-1\nlocal-hostname: edge-01\n", UserData: node}
	want := Found{InstanceID: "i-1", Hostname: "edge-01", Node: "edge-01"}
	long := strings.Repeat("a", 63) + "." + strings.Repeat("b", 63)
	for name, tc := range map[string]struct {
		make  tool
		files map[string]string
		want  Found
	}{
		// virtinst/install/installerinject.py and cloudinit.py of virt-manager: meta-data is empty where none is given.
		"virt-install --cloud-init user-data=": {
			command("xorriso", "-as", "mkisofs", "-J", "-input-charset", "utf8", "-rational-rock", "-V", "cidata"),
			map[string]string{MetaData: "", UserData: node}, Found{Node: "edge-01"},
		},
		"virt-install --cloud-init root-password-generate=on": {
			command("genisoimage", "-J", "-input-charset", "utf8", "-rational-rock", "-V", "cidata"),
			map[string]string{MetaData: "", UserData: "#cloud-config\nchpasswd:\n  list: |\n    root:abcd\n  expire: True\nusers:\n  - default\n  - name: root\n" +
				"    ssh_authorized_keys:\n      - ssh-ed25519 AAAA\nruncmd:\n- echo \"Disabled by virt-install\" > /etc/cloud/cloud-init.disabled\n"},
			Found{NotTaken: []string{"user-data: chpasswd", "user-data: runcmd", "user-data: users"}},
		},
		// PVE/QemuServer/Cloudinit.pm of Proxmox: 4 MiB, as a disc or a disk, with these documents in all.
		"Proxmox": {
			padded(command("genisoimage", "-quiet", "-iso-level", "3", "-J", "-R", "-V", "cidata"), 4<<20),
			map[string]string{
				MetaData: "instance-id: 6e1dc1b5c2a3f1c1c0a1a1ab8a9f6b7f4d1b2c3d\n", vendorData: "",
				UserData: "#cloud-config\nhostname: edge-01\nmanage_etc_hosts: true\nfqdn: edge-01.plant.example\nuser: debian\npassword: $5$x\n" +
					"chpasswd:\n  expire: False\nusers:\n  - default\npackage_upgrade: true\n",
				NetworkConfig: "version: 1\nconfig:\n    - type: physical\n      name: eth0\n      mac_address: '52:54:00:77:00:0b'\n      subnets:\n" +
					"      - type: static\n        address: '10.77.0.11'\n        netmask: '255.255.255.0'\n        gateway: '10.77.0.1'\n      - type: ipv6_slaac\n" +
					"    - type: nameserver\n      address:\n      - '10.77.0.2'\n      search:\n      - 'plant.example'\n",
			},
			Found{
				InstanceID: "6e1dc1b5c2a3f1c1c0a1a1ab8a9f6b7f4d1b2c3d",
				Network: &Network{
					Links:       []Link{{ID: "eth0", Name: "eth0", MAC: "52:54:00:77:00:0b", Addresses: []string{"10.77.0.11/24"}, Gateways: []string{"10.77.0.1"}}},
					Nameservers: []string{"10.77.0.2"}, Search: "plant.example",
				},
				NotTaken: []string{
					"network-config: eth0: subnet of type ipv6_slaac", "user-data: chpasswd", "user-data: fqdn", "user-data: hostname", "user-data: manage_etc_hosts",
					"user-data: package_upgrade", "user-data: password", "user-data: user", "user-data: users",
				},
			},
		},
		"Proxmox before 8.2, without Joliet": {padded(command("genisoimage", "-quiet", "-iso-level", "3", "-R", "-V", "cidata"), 4<<20), plain, want},
		// bin/cloud-localds of cloud-utils, which writes meta-data as JSON.
		"cloud-localds": {
			command("genisoimage", "-volid", "cidata", "-joliet", "-rock"),
			map[string]string{MetaData: "{\n\"instance-id\": \"iid-local01\",\n\"local-hostname\": \"edge-01\",\n\"dsmode\": \"local\"\n}\n", UserData: node},
			Found{InstanceID: "iid-local01", Hostname: "edge-01", Node: "edge-01", NotTaken: []string{"meta-data: dsmode"}},
		},
		"cloud-localds --filesystem=vfat": {vfat(128<<10, "-n", "cidata"), plain, want},
		// pkg/cloud-init of KubeVirt. Its instance-id has the names of machine and namespace.
		"KubeVirt": {
			command("xorriso", "-as", "mkisofs", "-volid", "cidata", "-joliet", "-rock", "-partition_cyl_align", "on"),
			map[string]string{MetaData: "{\"instance-id\":\"" + long + "\",\"local-hostname\":\"edge-01\"}", UserData: node},
			Found{InstanceID: long, Hostname: "edge-01", Node: "edge-01"},
		},
		"Incus and LXD":        {command("genisoimage", "-joliet", "-rock", "-input-charset", "utf8", "-output-charset", "utf8", "-volid", "cidata"), plain, want},
		"Lima, by go-diskfs":   {goDiskfs, plain, want},
		"mkisofs for VMware":   {command("genisoimage", "-r", "-V", "CIDATA"), plain, want},
		"oscdimg -j1, Hyper-V": {command("genisoimage", "-J", "-V", "CIDATA"), plain, want},
		// IMAPI2, by which PowerShell makes discs, writes UDF besides ISO 9660 and Joliet.
		"IMAPI2 for Hyper-V, with UDF": {command("genisoimage", "-udf", "-J", "-V", "CIDATA"), plain, want},
		"hdiutil makehybrid, with HFS": {command("genisoimage", "-hfs", "-J", "-V", "cidata"), plain, want},
		"hdiutil makehybrid -iso":      {command("genisoimage", "-J", "-joliet-long", "-V", "CIDATA"), plain, want},
		// Names in capitals, with versions: USER-DATA.;1.
		"neither Rock Ridge nor Joliet":         {command("genisoimage", "-l", "-relaxed-filenames", "-V", "CIDATA"), plain, want},
		"the same without dot and version":      {command("genisoimage", "-l", "-relaxed-filenames", "-allow-multidot", "-N", "-d", "-V", "CIDATA"), plain, want},
		"names in small letters without either": {command("genisoimage", "-U", "-V", "cidata"), plain, want},
		"names of ISO 9660 alone": {command("genisoimage", "-V", "CIDATA"), plain,
			Found{NotTaken: []string{"the volume /dev/sr0 (iso9660): it has none of the files meta-data, user-data, network-config"}}},
		"a FAT16 of Windows": {vfat(20<<20, "-F", "16", "-n", "CIDATA"), plain, want},
		"a FAT32 of Windows": {vfat(64<<20, "-F", "32", "-n", "CIDATA"), plain, want},
		"documents of Windows, with CR LF and a byte order mark": {
			command("genisoimage", "-J", "-V", "CIDATA"),
			map[string]string{MetaData: "\ufeffinstance-id: i-1\r\nlocal-hostname: edge-01\r\n", UserData: "\ufeff#cloud-config\r\nspore:\r\n  node: edge-01\r\n  bundle: |\r\n    eA\r\n    ==\r\n"},
			Found{InstanceID: "i-1", Hostname: "edge-01", Node: "edge-01", Bundle: []byte("x")},
		},
		"a script of Windows": {
			command("genisoimage", "-J", "-V", "CIDATA"), map[string]string{UserData: "\ufeff#!/bin/sh\r\nrm -rf /\r\n"},
			Found{NotTaken: []string{"user-data: a script"}},
		},
		// OpenStack's config drive is another format; nobody asked for it.
		"a config drive": {command("genisoimage", "-J", "-R", "-V", "config-2"), plain, Found{}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, out := t.TempDir(), filepath.Join(t.TempDir(), "volume")
			for name, content := range tc.files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
			}
			tc.make(t, dir, out)
			data, err := os.ReadFile(out)
			require.NoError(t, err)
			got := Find(Options{Source: disks(t, map[string][]byte{"sr0": data}), Volumes: true})
			require.Empty(t, got.Problem)
			got.From = nil
			require.Equal(t, tc.want, got)
		})
	}
}
