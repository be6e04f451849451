package efi_test

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"spore/agent/efi"
)

const (
	global = "-8be4df61-93ca-11d2-aa0d-00e098032b8c"
	loader = "-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"

	// As OVMF of Debian 12 wrote them for QEMU's disks, with attributes, behind the path the loader's own data.
	bootVirtioBlk  = "07000000010000001600550045004600490020004d006900730063002000440065007600690063006500000002010c00d041030a000000000101060000027fff04004eac0881119f594d850ee21a522c59b2"
	bootAHCI       = "0700000001000000200055004500460049002000510045004d005500200048004100520044004400490053004b0020005300450043004f004e0044002000000002010c00d041030a0000000001010600021f03120a000100ffff00007fff04004eac0881119f594d850ee21a522c59b2"
	bootNVMe       = "0700000001000000260055004500460049002000510045004d00550020004e0056004d00650020004300740072006c0020005300450043004f004e00440020003100000002010c00d041030a00000000010106000002031710000100000000000000000000007fff04004eac0881119f594d850ee21a522c59b2"
	bootVirtioSCSI = "07000000010000001e0055004500460049002000510045004d0055002000510045004d005500200048004100520044004400490053004b002000000002010c00d041030a0000000001010600000103020800030001007fff04004eac0881119f594d850ee21a522c59b2"
	bootUSB        = "07000000010000001c0055004500460049002000510045004d0055002000510045004d00550020005500530042002000480041005200440044005200490056004500200053005400490043004b00000002010c00d041030a000000000101060000010305060000007fff04004eac0881119f594d850ee21a522c59b2"
	bootUSBHub     = "0700000001000000220055004500460049002000510045004d0055002000510045004d00550020005500530042002000480041005200440044005200490056004500200053005400490043004b003200000002010c00d041030a000000000101060000010305060004000305060002007fff04004eac0881119f594d850ee21a522c59b2"
	bootShell      = "07000000010000002c00450046004900200049006e007400650072006e0061006c0020005300680065006c006c00000004071400c9bdb87cebf8344faaea3ee4af6516a10406140083a5047c3e9e1c4fad65e05268d0b4d17fff0400"
	loaderPart     = "06000000430043004400460034003200380041002d0032003900380042002d0038004300380033002d0042003400380031002d004400390044003100310043004400320034004500330034000000"
)

func bytesOf(t testing.TB, text string) []byte {
	b, err := hex.DecodeString(text)
	require.NoError(t, err)
	return b
}

func vars(t testing.TB, byName map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range byName {
		m[name] = &fstest.MapFile{Data: bytesOf(t, text)}
	}
	return m
}

// pathOf reads the path of a boot option.
func pathOf(t testing.TB, option string) efi.Path {
	_, p, err := efi.ParseLoadOption(bytesOf(t, option)[4:])
	require.NoError(t, err)
	return p
}

func TestWhatFirmwareAndLoaderSayIsRead(t *testing.T) {
	b, err := efi.ReadBoot(vars(t, map[string]string{
		"BootCurrent" + global: "060000000100", "Boot0001" + global: bootAHCI, "Boot0000" + global: bootShell, "LoaderDevicePartUUID" + loader: loaderPart,
	}))
	require.NoError(t, err)
	require.Equal(t, "ccdf428a-298b-8c83-b481-d9d11cd24e34", b.LoaderPartition.String())
	require.Equal(t, "Boot0001 UEFI QEMU HARDDISK SECOND ", b.Option)
	require.Equal(t, "PciRoot(0x0)/Pci(0x1f,0x2)/Sata(0x1,0xffff,0x0)", b.Path.String())
}

func TestWhatIsMissingOrBadStaysEmptyAndIsSaid(t *testing.T) {
	b, err := efi.ReadBoot(fstest.MapFS{})
	require.Equal(t, efi.Boot{}, b)
	require.ErrorContains(t, err, "LoaderDevicePartUUID")
	require.ErrorContains(t, err, "BootCurrent")
	for name, c := range map[string]struct{ current, option, part, message string }{
		"option not there":     {"060000000200", bootUSB, loaderPart, "Boot0002"},
		"current too short":    {"0600000001", bootUSB, loaderPart, "BootCurrent: 1 bytes"},
		"no attributes":        {"0600", bootUSB, loaderPart, "BootCurrent: 2 bytes"},
		"option too short":     {"060000000100", "0700000001", loaderPart, "load option of 1 bytes"},
		"description open":     {"060000000100", "07000000" + "01000000" + "0400" + "41004200", loaderPart, "text without an end"},
		"path too long":        {"060000000100", "07000000" + "01000000" + "ff00" + "41000000" + "7fff0400", loaderPart, "a device path of 255 bytes in 4"},
		"path without end":     {"060000000100", "07000000" + "01000000" + "0600" + "41000000" + "010106000003", loaderPart, "device path: no end"},
		"node of no size":      {"060000000100", "07000000" + "01000000" + "0400" + "41000000" + "01010000", loaderPart, "a node of 0 bytes"},
		"node over the end":    {"060000000100", "07000000" + "01000000" + "0400" + "41000000" + "0101ffff", loaderPart, "a node of 65535 bytes in 4"},
		"PCI node too small":   {"060000000100", "07000000" + "01000000" + "0800" + "41000000" + "010104007fff0400", loaderPart, "a node of type 0x101 with 4 bytes"},
		"partition no GUID":    {"060000000100", bootUSB, "0600000041000000", "LoaderDevicePartUUID"},
		"partition no end":     {"060000000100", bootUSB, "060000004100", "text without an end"},
		"too many nodes":       {"060000000100", "07000000" + "01000000" + "8a01" + "41000000" + strings.Repeat("010106000003", 64+1) + "7fff0400", loaderPart, "more than 64 nodes"},
		"variable far too big": {"06000000" + strings.Repeat("00", 70000), bootUSB, loaderPart, "EFI variable BootCurrent"},
	} {
		_, err := efi.ReadBoot(vars(t, map[string]string{"BootCurrent" + global: c.current, "Boot0001" + global: c.option, "LoaderDevicePartUUID" + loader: c.part}))
		require.ErrorContains(t, err, c.message, name)
	}
}

func TestPathsAreWrittenAsInTheSpecification(t *testing.T) {
	for option, want := range map[string]string{
		bootVirtioBlk:  "PciRoot(0x0)/Pci(0x2,0x0)",
		bootNVMe:       "PciRoot(0x0)/Pci(0x2,0x0)/NVMe(0x1,0000000000000000)",
		bootVirtioSCSI: "PciRoot(0x0)/Pci(0x1,0x0)/Scsi(0x3,0x1)",
		bootUSB:        "PciRoot(0x0)/Pci(0x1,0x0)/USB(0x0,0x0)",
		bootUSBHub:     "PciRoot(0x0)/Pci(0x1,0x0)/USB(0x4,0x0)/USB(0x2,0x0)",
		bootShell:      "Path(4,7,c9bdb87cebf8344faaea3ee4af6516a1)/Path(4,6,83a5047c3e9e1c4fad65e05268d0b4d1)",
	} {
		require.Equal(t, want, pathOf(t, option).String())
	}
	file := append([]byte{4, 4, 8, 0, '\\', 0, 0, 0}, bytesOf(t, "7fff0400")...)
	disk := append([]byte{4, 1, 42, 0, 1, 0, 0, 0}, make([]byte, 34)...)
	p, err := efi.ParsePath(append(disk, file...))
	require.NoError(t, err)
	require.Equal(t, `HD(1)/\`, p.String())
	p, err = efi.ParsePath(bytesOf(t, "02010c000204060001000000"+"03010800010100ff"+"030f0b00ffffffff080650"+"7fff0400"))
	require.NoError(t, err)
	require.Equal(t, "Acpi(0x60402,0x1)/Ata(1,1)/UsbClass(0xffff,0xffff,0x8,0x6,0x50)", p.String())
}

// As OVMF has them for a virtio card: over PXE, and over HTTP from a server that DHCP names and one that is set.
const (
	pathPXE   = "02010c00d041030a00000000" + "010106000003" + "030b2500525400123456" + "0000000000000000000000000000000000000000000000000000" + "01" + "030c1b00" + "0000000000000000000000000000000000000000000000"
	pathHTTP  = pathPXE + "03180400"
	pathHTTPS = pathPXE + "03180e00687474703a2f2f612f78"
)

func TestAStartFromTheNetworkIsTold(t *testing.T) {
	for path, want := range map[string]string{
		pathPXE:   "PciRoot(0x0)/Pci(0x3,0x0)/MAC(525400123456,0x1)/IPv4(0.0.0.0)",
		pathHTTP:  "PciRoot(0x0)/Pci(0x3,0x0)/MAC(525400123456,0x1)/IPv4(0.0.0.0)/Uri()",
		pathHTTPS: "PciRoot(0x0)/Pci(0x3,0x0)/MAC(525400123456,0x1)/IPv4(0.0.0.0)/Uri(http://a/x)",
	} {
		p := pathOf(t, option(path))
		require.True(t, p.Network(), want)
		require.Equal(t, want, p.String())
		require.Equal(t, "52:54:00:12:34:56", p.MAC())
	}
	for name, path := range map[string]string{
		"a disk": "02010c00d041030a00000000" + "010106000003", "a disk by iSCSI": pathPXE + "03131400" + "00000000" + "0000000000000000" + "0000" + "0000", "nothing": "",
	} {
		require.False(t, pathOf(t, option(path)).Network(), name)
	}
	require.Empty(t, pathOf(t, option("")).MAC())
	for _, short := range []string{"030b2400" + strings.Repeat("00", 32), "030c1200" + strings.Repeat("00", 14), "030d2a00" + strings.Repeat("00", 38)} {
		_, err := efi.ParsePath(bytesOf(t, short+"7fff0400"))
		require.ErrorContains(t, err, "device path: a node of type")
	}
}

func TestTheSwitchOfSecureBootIsReadAndOneThatCannotBeReadIsOn(t *testing.T) {
	for name, c := range map[string]struct {
		vars map[string]string
		want bool
	}{
		"none":      {nil, false},
		"off":       {map[string]string{"SecureBoot" + global: "0600000000"}, false},
		"on":        {map[string]string{"SecureBoot" + global: "0600000001"}, true},
		"too short": {map[string]string{"SecureBoot" + global: "06000000"}, true},
		"too long":  {map[string]string{"SecureBoot" + global: "060000000000"}, true},
	} {
		b, _ := efi.ReadBoot(vars(t, c.vars))
		require.Equal(t, c.want, b.SecureBoot, name)
	}
}

func FuzzReadBoot(f *testing.F) {
	f.Add(bytesOf(f, option(pathHTTPS)), bytesOf(f, loaderPart))
	for _, option := range []string{bootVirtioBlk, bootAHCI, bootNVMe, bootVirtioSCSI, bootUSB, bootUSBHub, bootShell} {
		f.Add(bytesOf(f, option), bytesOf(f, loaderPart))
	}
	f.Fuzz(func(t *testing.T, option, part []byte) {
		b, _ := efi.ReadBoot(fstest.MapFS{
			"BootCurrent" + global:          {Data: []byte{6, 0, 0, 0, 1, 0}},
			"Boot0001" + global:             {Data: option},
			"LoaderDevicePartUUID" + loader: {Data: part},
		})
		_ = b.Path.String()
		_ = b.Path.Network()
		_ = b.Path.MAC()
		for _, d := range lab(t) {
			_ = b.Path.Match(sysLab, d)
			_ = b.Path.OnWay(sysLab, d.SysPath)
		}
	})
}

// option makes a boot option of a path, for hardware that QEMU has not.
func option(path string) string {
	raw, _ := hex.DecodeString(path + "7fff0400")
	b := binary.LittleEndian.AppendUint16([]byte{7, 0, 0, 0, 1, 0, 0, 0}, uint16(len(raw)))
	for _, c := range utf16.Encode([]rune("x\x00")) {
		b = binary.LittleEndian.AppendUint16(b, c)
	}
	return hex.EncodeToString(append(b, raw...))
}
