package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/blockdev"
	"spore/agent/bootinfo"
	"spore/agent/stage1/dhcp"
	"spore/agent/stage1/httpget"
	"spore/agent/stage1/loop"
	"spore/agent/stage1/machineid"
	"spore/agent/stage1/netif"
	"spore/agent/stage1/netroot"
	"spore/storage/gpt"
)

// Bounds of a start from the network.
const (
	// leaseBound is for an address; a switch port with spanning tree forwards after 30 seconds, and after a power cut the
	// server comes up with the machines.
	leaseBound = 5 * time.Minute
	// idleBound is the longest silence of the HTTP server within a connection, stallBound with all that is tried again.
	idleBound  = 20 * time.Second
	stallBound = 5 * time.Minute
	// firstWait is the first wait before something is asked again, longestWait the longest.
	firstWait   = time.Second
	longestWait = 16 * time.Second
)

// resolvConf is where package net looks for resolvers.
const resolvConf = "/etc/resolv.conf"

// findImage finds the image where this kernel came from.
func (b *boot) findImage() (string, error) {
	if why := b.fromNetwork(); why != "" {
		b.say(notice, "the image comes from the network: %s", why)
		return b.fetchImage(context.Background())
	}
	return b.findDisk()
}

// fromNetwork says why the image is to come from the network; empty when it is on a disk. A boot loader that was read
// from a disk decides: a word that is left on its command line must not send a machine to a server.
func (b *boot) fromNetwork() string {
	switch {
	case b.firmware.LoaderPartition != (gpt.GUID{}):
		return ""
	case b.args.URL != "":
		return "the kernel command line says spore.url=" + b.args.URL
	case b.firmware.Path.Network():
		return "the firmware started " + b.firmware.Option + ", " + b.firmware.Path.String()
	}
	return ""
}

// fetchImage gets an address, downloads the image and makes block devices of it. Then it leaves the cards as they were,
// for networkd to begin anew.
func (b *boot) fetchImage(ctx context.Context) (string, error) {
	cards, err := b.awaitCards()
	if err != nil {
		return "", err
	}
	var errs []error
	for len(cards) > 0 {
		var used dhcp.Card
		var files netroot.Files
		if used, files, err = b.fetchBy(ctx, cards); err == nil {
			defer files.Close()
			b.downAll(cards)
			return b.attach(files)
		}
		errs = append(errs, err)
		if cards = without(cards, used); len(cards) > 0 {
			b.say(warning, "%s; trying the other network cards", oneLine(err))
		}
	}
	return "", errors.Join(errs...)
}

// without leaves out a card; without a card that was used, all: none of them got an answer.
func without(cards []dhcp.Card, used dhcp.Card) []dhcp.Card {
	if used.Name == "" {
		return nil
	}
	var out []dhcp.Card
	for _, c := range cards {
		if c != used {
			out = append(out, c)
		}
	}
	return out
}

// fetchBy downloads by the card on which a DHCP server answers.
func (b *boot) fetchBy(ctx context.Context, cards []dhcp.Card) (dhcp.Card, netroot.Files, error) {
	// Both wait for long, and say for what at each try.
	waiting := func(s string) {
		b.guard.Alive()
		b.say(notice, "%s", s)
	}
	lease, err := dhcp.Acquire(ctx, dhcp.Options{
		Cards: cards, UUID: b.productUUID(), XID: rand.Uint32(), NeedURL: b.args.URL == "", Bound: leaseBound,
		First: firstWait, Longest: longestWait / 2, Say: waiting,
	})
	if err != nil {
		return dhcp.Card{}, netroot.Files{}, err
	}
	b.say(notice, "DHCP: %s", lease)
	if err := configure(lease); err != nil {
		return lease.Card, netroot.Files{}, err
	}
	defer func() {
		if err := errors.Join(lease.Release(ctx), netif.Clear(lease.Card.Name)); err != nil {
			b.say(warning, "%s", oneLine(err))
		}
	}()
	text := lease.URL
	if b.args.URL != "" {
		text = b.args.URL
	}
	url, err := httpget.ParseURL(text)
	if err != nil {
		return lease.Card, netroot.Files{}, err
	}
	b.info.NetworkURL = url.Base().String()
	dialer := net.Dialer{Resolver: &net.Resolver{PreferGo: true}}
	files, err := netroot.Fetch(ctx, netroot.Options{
		Base: url.Base(), Client: httpget.Client{Dial: dialer.DialContext, Idle: idleBound}, RootHash: b.args.RootHash, ClusterHash: b.args.ClusterHash,
		Room: roomFor, Stall: stallBound, First: firstWait, Longest: longestWait, Say: waiting,
	})
	b.info.ChosenBy = fmt.Sprintf("downloaded from %s by %s", url.Base(), lease.Card)
	return lease.Card, files, err
}

// productUUID is SMBIOS's as the firmware has it: its first three fields are little-endian (SMBIOS 3.7, section 7.2.1).
func (b *boot) productUUID() []byte {
	text := blockdev.Text(b.sys, "class/dmi/id/product_uuid")
	raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(raw) != 16 || !machineid.GoodUUID(text) {
		return nil
	}
	for _, swap := range [][2]int{{0, 3}, {1, 2}, {4, 5}, {6, 7}} {
		raw[swap[0]], raw[swap[1]] = raw[swap[1]], raw[swap[0]]
	}
	return raw
}

func configure(l dhcp.Lease) error {
	var router netip.Addr
	if len(l.Routers) > 0 {
		router = l.Routers[0]
	}
	if err := netif.Configure(l.Card.Name, l.Address, router); err != nil {
		return err
	}
	var resolv strings.Builder
	for _, s := range l.DNS {
		fmt.Fprintf(&resolv, "nameserver %s\n", s)
	}
	if l.Domain != "" && !strings.ContainsAny(l.Domain, " \t") {
		fmt.Fprintf(&resolv, "search %s\n", l.Domain)
	}
	if err := os.WriteFile(resolvConf, []byte(resolv.String()), 0o644); err != nil {
		return fmt.Errorf("keep the name servers: %w", err)
	}
	return nil
}

// roomFor mounts a tmpfs for need bytes, which stays as long as the machine runs.
func roomFor(need int64) (string, error) {
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return "", err
	}
	if err := netroot.CheckMemory(string(meminfo), need); err != nil {
		return "", err
	}
	if err := unix.Unmount(bootinfo.NetworkDir, 0); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return "", fmt.Errorf("remove what was downloaded before: %w", err)
	}
	// Room for the directory itself, and for what is rounded up to pages.
	options := fmt.Sprintf("mode=0700,size=%d", need+1<<20)
	return bootinfo.NetworkDir, mountAt("tmpfs", bootinfo.NetworkDir, "tmpfs", options, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC)
}

// attach makes read-only block devices of the parts and takes them for the partitions of a disk.
func (b *boot) attach(files netroot.Files) (string, error) {
	if err := b.loader.Load("loop"); err != nil {
		return "", err
	}
	b.parts = map[gpt.GUID]part{}
	var nodes []string
	for _, p := range []struct {
		guid gpt.GUID
		name string
		file netroot.File
	}{{b.wanted.Root, netroot.RootName, files.Root}, {b.wanted.Verity, netroot.VerityName, files.Verity}, {b.wanted.Cluster, netroot.ClusterName, files.Cluster}} {
		node, number, err := loop.Attach(p.file.File, filepath.Join(bootinfo.NetworkDir, p.name))
		if err != nil {
			return "", err
		}
		b.parts[p.guid] = part{Partition: gpt.Partition{GUID: p.guid, Size: p.file.Size}, Node: "/dev/" + node, Dev: number}
		nodes = append(nodes, node)
	}
	return "the image is in memory: " + strings.Join(nodes, ", "), nil
}

// downAll leaves the cards down, as a kernel does that was just started: udev gives names to cards that are not in use.
func (b *boot) downAll(cards []dhcp.Card) {
	for _, c := range cards {
		if err := netif.Down(c.Name); err != nil {
			b.say(warning, "%v", err)
		}
	}
}
