package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/blockdev"
	"spore/agent/stage1/dhcp"
	"spore/agent/stage1/modules"
	"spore/agent/stage1/netif"
)

const (
	// cardBound is for a network card with a carrier; longer than it takes USB to find one, and a switch to agree.
	cardBound = 40 * time.Second
	// cardQuiet is how long other cards may come after one with a carrier, where the firmware names none.
	cardQuiet = 3 * time.Second
)

// cardBuses are those whose devices may be, or lead to, a network card.
var cardBuses = []string{"pci", "virtio", "usb", "vmbus", "xen"}

// wire is a network card and how it is.
type wire struct {
	dhcp.Card
	carrier bool
}

// cardDrivers loads drivers of network cards, which lie apart: their devices ask for them on machines that start from
// disks, too.
type cardDrivers struct {
	loader *modules.Loader
	done   map[string]bool
}

func newCardDrivers() (*cardDrivers, error) {
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		return nil, err
	}
	dir := path.Join("/lib/modules", unix.ByteSliceToString(uname.Release[:]), "network")
	index, err := modules.ReadIndex(os.DirFS(dir))
	if err != nil {
		return nil, fmt.Errorf("drivers of network cards: %w", err)
	}
	return &cardDrivers{loader: modules.NewLoader(index, dir, modules.Insert), done: map[string]bool{}}, nil
}

// load loads what the devices ask for that are there now and were not looked at.
func (d *cardDrivers) load(sys fs.FS, say func(string)) {
	for _, bus := range cardBuses {
		dir := path.Join("bus", bus, "devices")
		devices, _ := fs.ReadDir(sys, dir)
		for _, e := range devices {
			modalias := blockdev.Text(sys, path.Join(dir, e.Name(), "modalias"))
			if modalias == "" || d.done[modalias] {
				continue
			}
			d.done[modalias] = true
			if err := d.loader.LoadFor(modalias); err != nil {
				say(fmt.Sprintf("network card %s: %s", modalias, oneLine(err)))
			}
		}
	}
}

// awaitCards loads the drivers, brings all cards up and waits for a carrier on the one that the firmware used, or on
// any. The cards are in the order in which they are wanted.
func (b *boot) awaitCards() ([]dhcp.Card, error) {
	drivers, err := newCardDrivers()
	if err != nil {
		return nil, err
	}
	b.coldplugAll()
	start, change, up, said := sinceBoot(), sinceBoot(), map[string]bool{}, ""
	for {
		b.guard.Alive()
		b.pump(0)
		drivers.load(b.sys, func(s string) { b.say(warning, "%s", s) })
		wires := b.wires()
		for _, w := range wires {
			if !up[w.Name] {
				up[w.Name], change = true, sinceBoot()
				if err := netif.Up(w.Name); err != nil {
					b.say(warning, "%v", err)
				}
			}
		}
		now := sinceBoot()
		if wiresReady(wires, b.firmware.Path.MAC(), now-change) || now-start > cardBound && len(wires) > 0 {
			b.say(notice, "network cards: %s; loaded %s", describe(wires), strings.Join(drivers.loader.Loaded(), " "))
			return inOrder(wires, b.firmware.Path.MAC()), nil
		}
		if now-start > cardBound {
			return nil, errors.New("there is no network card that a driver of this initramfs knows; loaded " + strings.Join(drivers.loader.Loaded(), " "))
		}
		if text := describe(wires); text != said && now-start > 2*time.Second {
			said = text
			b.say(notice, "waiting for a network card with a carrier; cards so far: %s", text)
		}
		b.pump(100 * time.Millisecond)
	}
}

// wires lists the Ethernet cards of sysfs that stand for hardware.
func (b *boot) wires() []wire {
	var out []wire
	entries, _ := fs.ReadDir(b.sys, "class/net")
	for _, e := range entries {
		dir := "class/net/" + e.Name()
		if _, err := fs.Stat(b.sys, dir+"/device"); err != nil || blockdev.Text(b.sys, dir+"/type") != "1" {
			continue
		}
		mac, err := hex.DecodeString(strings.ReplaceAll(blockdev.Text(b.sys, dir+"/address"), ":", ""))
		if err != nil || len(mac) != 6 {
			continue
		}
		out = append(out, wire{dhcp.Card{Name: e.Name(), MAC: [6]byte(mac)}, blockdev.Text(b.sys, dir+"/carrier") == "1"})
	}
	return out
}

// wiresReady tells whether to ask now: the firmware's card has a carrier, or another has and no card has come for a
// while.
func wiresReady(wires []wire, firmware string, quiet time.Duration) bool {
	for _, w := range wires {
		if w.carrier && (macText(w.MAC) == firmware || quiet >= cardQuiet) {
			return true
		}
	}
	return false
}

// inOrder sorts: the firmware's card, those with a carrier, the rest; each by name.
func inOrder(wires []wire, firmware string) []dhcp.Card {
	rank := func(w wire) int {
		switch {
		case macText(w.MAC) == firmware:
			return 0
		case w.carrier:
			return 1
		}
		return 2
	}
	sort.SliceStable(wires, func(i, j int) bool { return rank(wires[i]) < rank(wires[j]) })
	var out []dhcp.Card
	for _, w := range wires {
		out = append(out, w.Card)
	}
	return out
}

func describe(wires []wire) string {
	if len(wires) == 0 {
		return "none"
	}
	var out []string
	for _, w := range wires {
		out = append(out, w.String()+map[bool]string{true: "", false: " without a carrier"}[w.carrier])
	}
	return strings.Join(out, ", ")
}

// macText is a MAC as sysfs writes it.
func macText(mac [6]byte) string { return net.HardwareAddr(mac[:]).String() }
