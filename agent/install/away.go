package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"spore/agent/bundle"
	"spore/agent/delivery"
	"spore/agent/node"
	"spore/cluster/spec"
	secrets "spore/pki/bundle"
	"spore/storage/disk"
	"spore/storage/flash"
	"spore/storage/gpt"
)

// Order is what a person asks for by the node's API, while the machine runs.
type Order struct {
	Disk spec.DiskSelector
	// Given are the disks that the node's file gives to services: none of them is installed on.
	Given []spec.Disk
	// EraseState gives up the state on the disk.
	EraseState bool
	// WithoutBundle leaves out the bundle that the node keeps, where the medium has none any more, or an older one, and
	// that of NoCloud.
	WithoutBundle bool
}

// Offer is what would be written to.
type Offer struct {
	// Disk is the device, such as /dev/sda, and Name what names it for good: its serial number, or wwn:WWN or id:NAME
	// where it has none.
	Disk string `json:"disk"`
	Name string `json:"name"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// Holds is in words what is on it, and Same is true where that is the running system.
	Holds string `json:"holds"`
	Same  bool   `json:"same,omitempty"`
	// Kept are the PARTUUIDs of its state partitions, which are kept.
	Kept []string `json:"kept,omitempty"`
	// Bundle is where the bundle comes from that the disk gets: medium, nocloud or state; it is empty where it gets none.
	Bundle string `json:"bundle,omitempty"`
}

// String says it for people.
func (o Offer) String() string {
	return fmt.Sprintf("%s (serial %s, %d MiB), which holds: %s", o.Disk, o.Name, o.Size>>20, o.Holds)
}

// Prepared is an installation that was looked at and not begun. Whoever has one closes it.
type Prepared struct {
	Offer
	m       *node.Machine
	options Options
	close   func()
}

// Close lets go of the medium.
func (p *Prepared) Close() { p.close() }

// Prepare finds the disk and the system, and says what would be done. It writes nothing.
func Prepare(ctx context.Context, m *node.Machine, w Order) (p *Prepared, err error) {
	m.ReadBoot()
	m.FindDisks(ctx)
	o, done, err := gather(ctx, m, w.Disk, "", w.WithoutBundle)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	o.EraseState = w.EraseState
	t, err := Find(o)
	if err != nil {
		return nil, err
	}
	if use := givenTo(w.Given, t.Disk); use != "" {
		return nil, fmt.Errorf("%s is refused: the node's file gives it to %s; take it out of the file first; "+
			"nothing was written", t.Where(), use)
	}
	stored, err := kept(ctx, m, w)
	if err != nil && len(o.Choice.Bundle) == 0 {
		return nil, err
	}
	if o.BundleNote != "" {
		m.Say(o.BundleNote)
	}
	if better(stored, o.Choice.Bundle, o.BundleFrom) {
		o.Choice.Bundle, o.BundleFrom = stored, delivery.State
	}
	p = &Prepared{
		Offer: Offer{Disk: t.Path(), Name: nameOf(t), Size: t.Size, Bundle: o.BundleFrom},
		m:     m, options: o, close: done,
	}
	return p, p.look(t)
}

// nameOf is what an order repeats.
func nameOf(t flash.Target) string { return strings.Trim(t.Disk.Named(), "'") }

// better tells whether the disk gets the bundle of the state rather than one from elsewhere. Between its own and that of
// NoCloud the node has chosen at its start; what it could not open then, anyone who can write a volume may have made.
func better(stored, other []byte, from string) bool {
	return newer(stored, other) || len(stored) > 0 && from == delivery.NoCloud
}

// newer tells whether the disk gets another bundle, of the state or of NoCloud, rather than that of the medium: where the
// medium has none, or, as one that cannot be written to, one that the node does not use any more. One with a passphrase
// stays as it is.
func newer(other, medium []byte) bool {
	if len(other) == 0 || len(medium) == 0 {
		return len(other) > 0
	}
	old, err := secrets.Claimed(medium)
	if err != nil {
		return false
	}
	now, err := secrets.Claimed(other)
	return err == nil && (now.Cluster != old.Cluster || now.Node != old.Node || now.Serial > old.Serial)
}

// kept is the bundle that the node has in its state: the medium has none any more when it was sealed there, and an
// older one when the node was sent one since and cannot write to the medium.
func kept(ctx context.Context, m *node.Machine, w Order) ([]byte, error) {
	if w.WithoutBundle {
		return nil, nil
	}
	data, err := bundle.Stored(ctx, m)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("take the node's bundle along: %w", err)
	}
	return data, nil
}

// givenTo is the service that the node's file gives a disk to; empty where it gives it to none. One with the node's
// state can have the system, too: state is kept.
func givenTo(given []spec.Disk, d disk.Disk) string {
	for _, g := range given {
		if _, err := disk.Select([]disk.Disk{d}, g.Selector); err == nil && g.Use != "state" {
			return g.Use
		}
	}
	return ""
}

// look reads what the disk holds.
func (p *Prepared) look(t flash.Target) error {
	dev, err := flash.OpenRead(p.m.Root.At(t.Path()))
	if err != nil {
		return err
	}
	defer dev.Close()
	layout, err := p.options.Source.layout(t.Serial(), p.options.Choice, dev.SectorSize())
	if err != nil {
		return fmt.Errorf("what the machine was started from: %w", err)
	}
	parts, err := flash.Check(dev, flash.Options{Layout: layout, EraseState: p.options.EraseState})
	if err != nil {
		return fmt.Errorf("%s is refused: %w; nothing was written", t.Where(), err)
	}
	p.Holds, p.Same, p.Kept = flash.Content(dev, dev.Size(), dev.SectorSize()), flash.Holds(dev, layout), names(parts)
	return nil
}

func names(parts []gpt.Partition) (out []string) {
	for _, p := range parts {
		out = append(out, p.GUID.String())
	}
	return out
}

// Write installs, and says how far it is. It returns in words what was done.
func (p *Prepared) Write(ctx context.Context, say func(string)) (string, error) {
	o := p.options
	meter, last := flash.Meter{Now: p.m.Now}, p.m.Now()
	o.Progress = func(f flash.Progress) {
		if now := p.m.Now(); now.Sub(last) >= sayEvery || f.Done == f.Total {
			last = now
			say(meter.Line(f))
		}
	}
	o.Confirm = func(t flash.Target, holds string) error {
		// The disks were listed again meanwhile.
		if t.Path() != p.Disk || nameOf(t) != p.Name || t.Size != p.Size || holds != p.Holds {
			return fmt.Errorf("%s holds %s now, and what was looked at was %s; look again; nothing was written",
				t.Where(), holds, p.Offer)
		}
		say("installing on " + t.Where() + ", which holds: " + holds)
		return nil
	}
	began := p.m.Now()
	r, err := Run(ctx, o, true)
	if err != nil {
		return "", err
	}
	for _, part := range r.Report.Kept {
		say("kept the state partition " + part.GUID.String())
	}
	if r.Report.Note != "" {
		say(r.Report.Note)
	}
	return fmt.Sprintf("installed on %s in %s: %s; read back and compared. %s",
		r.Target.Path(), p.m.Now().Sub(began).Round(time.Second), r.Report.Saved(), registerBoot(p.m, r, true)), nil
}
