package main

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/efi"
	"spore/agent/kcmdline"
	"spore/agent/stage1/dhcp"
	"spore/agent/stage1/modules"
	"spore/storage/gpt"
)

func TestWhereTheImageComesFromIsDecidedByHowTheMachineWasStarted(t *testing.T) {
	path := func(text string) efi.Path {
		raw, err := hex.DecodeString(text + "7fff0400")
		require.NoError(t, err)
		p, err := efi.ParsePath(raw)
		require.NoError(t, err)
		return p
	}
	network := path("030b2500525400123456" + strings.Repeat("00", 26) + "01" + "030c1b00" + strings.Repeat("00", 23))
	disk := path("02010c00d041030a00000000" + "010106000003")
	for name, c := range map[string]struct {
		firmware efi.Boot
		url      string
		want     string
	}{
		"a disk":                           {efi.Boot{Path: disk}, "", ""},
		"nobody says":                      {efi.Boot{}, "", ""},
		"the firmware's network":           {efi.Boot{Option: "Boot0003 HTTP", Path: network}, "", "the firmware started Boot0003 HTTP, MAC(525400123456,0x1)/IPv4(0.0.0.0)"},
		"the command line":                 {efi.Boot{}, "http://a/x", "the kernel command line says spore.url=http://a/x"},
		"iPXE on a stick":                  {efi.Boot{Path: disk}, "http://a/x", "the kernel command line says spore.url=http://a/x"},
		"a boot loader of a disk":          {efi.Boot{Path: disk, LoaderPartition: gpt.GUID{1}}, "http://a/x", ""},
		"a disk, chained from the network": {efi.Boot{Path: network, LoaderPartition: gpt.GUID{1}}, "", ""},
	} {
		b := &boot{firmware: c.firmware, args: kcmdline.Args{URL: c.url}}
		require.Equal(t, c.want, b.fromNetwork(), name)
	}
}

func TestCardsAreAskedInTheOrderInWhichTheyAreWanted(t *testing.T) {
	b := &boot{sys: cards}
	wires := b.wires()
	require.Equal(t, "eth0 (52:54:00:00:00:01) without a carrier, eth1 (52:54:00:00:00:02) without a carrier, usb0 (00:e0:4c:00:00:01) without a carrier", describe(wires))
	wires[1].carrier = true
	names := func(list []dhcp.Card) (out []string) {
		for _, c := range list {
			out = append(out, c.Name)
		}
		return out
	}
	require.Equal(t, []string{"eth1", "eth0", "usb0"}, names(inOrder(wires, "")))
	require.Equal(t, []string{"usb0", "eth1", "eth0"}, names(inOrder(wires, "00:e0:4c:00:00:01")))
	require.Equal(t, "none", describe(nil))
}

func TestTheFirmwaresCardIsNotWaitedForLongerThanItsCarrier(t *testing.T) {
	one, two := wire{Card: dhcp.Card{MAC: [6]byte{1}}}, wire{Card: dhcp.Card{MAC: [6]byte{2}}, carrier: true}
	require.False(t, wiresReady(nil, "", time.Hour))
	require.False(t, wiresReady([]wire{one}, "01:00:00:00:00:00", time.Hour), "no carrier")
	require.True(t, wiresReady([]wire{one, two}, "02:00:00:00:00:00", 0))
	require.False(t, wiresReady([]wire{one, two}, "01:00:00:00:00:00", 0), "another card has a carrier first")
	require.True(t, wiresReady([]wire{one, two}, "01:00:00:00:00:00", cardQuiet))
	require.True(t, wiresReady([]wire{one, two}, "", cardQuiet))
}

func TestOnlyACardThatFailedIsLeftOut(t *testing.T) {
	a, b := dhcp.Card{Name: "a"}, dhcp.Card{Name: "b"}
	require.Equal(t, []dhcp.Card{b}, without([]dhcp.Card{a, b}, a))
	require.Empty(t, without([]dhcp.Card{b}, b))
	require.Empty(t, without([]dhcp.Card{a, b}, dhcp.Card{}), "no card got an answer")
}

func TestTheUUIDIsSentAsTheFirmwareHasIt(t *testing.T) {
	b := &boot{sys: fstest.MapFS{"class/dmi/id/product_uuid": file("00112233-4455-6677-8899-aabbccddeeff\n")}}
	require.Equal(t, "33221100554477668899aabbccddeeff", hex.EncodeToString(b.productUUID()))
	for _, bad := range []string{"", "x", "00000000-0000-0000-0000-000000000000", "03000200-0400-0500-0006-000700080009"} {
		b.sys = fstest.MapFS{"class/dmi/id/product_uuid": file(bad)}
		require.Nil(t, b.productUUID(), bad)
	}
}

func TestDriversOfCardsAreLoadedForWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	network := filepath.Join(dir, "network")
	require.NoError(t, os.MkdirAll(network, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(network, "modules.dep"), []byte("../kernel/e1000e.ko.xz: ../kernel/ptp.ko\n../kernel/ptp.ko:\n../kernel/virtio_net.ko.xz:\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(network, "modules.alias"), []byte("alias pci:v00008086d000010D3* e1000e\nalias virtio:d00000001v* virtio_net\n"), 0o644))
	index, err := modules.ReadIndex(os.DirFS(network))
	require.NoError(t, err)
	var inserted []string
	d := &cardDrivers{done: map[string]bool{}, loader: modules.NewLoader(index, network, func(f string) error { inserted = append(inserted, f); return nil })}
	d.load(cards, func(s string) { t.Error(s) })
	d.load(cards, func(s string) { t.Error(s) })
	require.Equal(t, []string{dir + "/kernel/ptp.ko", dir + "/kernel/e1000e.ko.xz", dir + "/kernel/virtio_net.ko.xz"}, inserted)
}
