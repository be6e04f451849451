// Package choice is how a person who stands before a machine makes it a node: a machine that matches no node, or two,
// is given one by the file on the ESP of its medium that `spore flash --node` writes (package espfiles). A choice that
// was made so is taken back so, as long as the node has no state.
//
// It is asked by who shows pages on the monitor (package call), through a socket that root alone may open, and is a
// process for each question: the program with the pages has no rights and writes nothing.
//
// A choice proves nothing: everybody who stands there can make it. It brings no secret. Roles that need one start with a
// bundle that is signed for the node, as with any other medium.
//
// The ESP is changed by single writes (package fat). The mark that the choice was made here comes first and goes last:
// a power cut leaves no choice, or all of it.
package choice

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/bootinfo"
	"spore/agent/choice/call"
	"spore/agent/detect"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/state"
	"spore/cluster/identity"
	"spore/storage/atomicfile"
	"spore/storage/espfiles"
	"spore/storage/fat"
)

// maxName bounds the files on the ESP, in bytes.
const maxName = 256

// Device is the ESP of the medium, open for this process alone.
type Device interface {
	fat.Device
	Size() int64
	// Fresh reads what is on the medium, past the host's memory, where that is possible.
	Fresh() (io.ReaderAt, string)
	Close() error
}

// Machine is the one that is to be a node.
type Machine struct {
	*node.Machine
	// OpenESP opens the ESP. Its error is fs.ErrPermission or unix.EROFS where it is write-protected.
	OpenESP func(ctx context.Context, path string) (Device, error)
}

// answer carries out a call. Restart says that the machine is to be restarted for it to count.
func (m Machine) answer(ctx context.Context, c call.Call) (a call.Answer, restart bool) {
	var err error
	switch c.Do {
	case call.Look:
		a.View, err = m.look()
	case call.Choose:
		a.Done, err = m.choose(ctx, c)
		restart = err == nil
	case call.Undo:
		a.Done, err = m.undo(ctx, c)
		restart = err == nil
	default:
		err = fmt.Errorf("nothing is called %.32q here", c.Do)
	}
	if err != nil {
		a = call.Answer{Error: err.Error()}
	}
	return a, restart
}

func (m Machine) look() (*call.View, error) {
	id, err := m.Identity()
	if err != nil {
		return nil, err
	}
	v := &call.View{Chosen: m.chosenHere()}
	_, err = os.Lstat(m.Root.At(bootinfo.Delivered))
	v.Bundle = err == nil
	if v.Chosen != "" {
		if err := m.mayUndo(id); err != nil {
			v.Stays = err.Error()
		}
	}
	if err := m.mayChoose(id); err != nil {
		v.Refused = err.Error()
	}
	if id.Known() {
		return v, nil
	}
	c, err := m.Part.Cluster()
	if err != nil {
		return nil, err
	}
	if len(c.SigningKeys) > 0 { // Without them no bundle is taken.
		v.Enroll = c.Enroll
	}
	v.Nodes, err = m.nodes(id)
	return v, err
}

// nodes lists all nodes of the cluster, in the order of call.View.
func (m Machine) nodes(id detect.Identity) ([]call.Node, error) {
	claims, err := m.Part.Claims()
	if err != nil {
		return nil, err
	}
	f := identity.Facts{MACs: id.Seen.MACs, Serial: id.Seen.Serial, UUID: id.Seen.UUID}
	out := make([]call.Node, 0, len(claims))
	for _, c := range claims {
		n := call.Node{Name: c.Node}
		n.For, n.Against = c.Compare(f)
		if own, err := m.Part.Node(c.Node); err == nil {
			n.Roles = own.Roles
		}
		out = append(out, n)
	}
	some := func(list []string) int { return min(len(list), 1) }
	slices.SortStableFunc(out, func(a, b call.Node) int {
		return cmp.Or(some(a.Against)-some(b.Against), some(b.For)-some(a.For))
	})
	return out, nil
}

// writable is why nothing can be kept on the medium, as far as that is known without opening it.
func (m Machine) writable() error {
	switch b := m.Boot; {
	case b.NetworkURL != "":
		return errors.New("this machine was started from the network, where no choice is kept: add one of its values to a node " +
			"in cluster.yaml, or start it from a stick")
	case b.BootDisk.Optical:
		return errors.New("this machine was started from a disc, which cannot be written to: start it from a stick, or add one " +
			"of its values to a node in cluster.yaml")
	case b.ESP == "":
		return errors.New("the medium has no EFI system partition, on which the choice would be kept: start the machine from a " +
			"stick that `spore flash` wrote")
	}
	return nil
}

// mayChoose is why no node can be chosen here.
func (m Machine) mayChoose(id detect.Identity) error {
	explicit := func(by string) bool {
		return id.By == by || slices.ContainsFunc(id.Candidates, func(c identity.Candidate) bool { return c.By == by })
	}
	switch {
	case id.Known():
		return fmt.Errorf("this machine is %s, by %s: it has its node", id.Node, id.By)
	case id.Problem == "":
		return errors.New("this machine is still finding out which node it is: wait for the answer of the DHCP server")
	case explicit(identity.ByCmdline):
		return errors.New("the kernel command line chooses a node (spore.node=), and wins over the medium: change it there")
	case explicit(identity.BySMBIOS):
		return errors.New("the firmware chooses a node (the SMBIOS credential spore.node), and wins over the medium: change it there")
	case id.NoCloud != nil && id.NoCloud.Disputed || explicit(identity.ByNoCloud):
		return errors.New("NoCloud chooses a node, and a choice on the medium would contradict it: change its user-data")
	}
	return m.writable()
}

// chosenHere is the node that was chosen on this machine and that the medium still chooses; empty where there is none.
func (m Machine) chosenHere() string {
	data, err := atomicfile.ReadLimited(m.Root.At(bootinfo.ChosenHere), maxName)
	if err != nil || m.Boot.ESPNode == "" || string(data) != m.Boot.ESPNode {
		return ""
	}
	return m.Boot.ESPNode
}

// mayUndo is why the choice cannot be undone here.
func (m Machine) mayUndo(id detect.Identity) error {
	if m.chosenHere() == "" {
		return errors.New("no node was chosen on this machine: a choice that `spore flash --node` wrote is changed by writing the " +
			"medium again")
	}
	if err := m.writable(); err != nil || !id.Known() {
		return err // State belongs to a node.
	}
	var info state.Info
	switch err := atomicfile.ReadJSON(m.Root.At(paths.State), &info); {
	case err != nil:
		return fmt.Errorf("it is not known whether %s has state here: %w", id.Node, err)
	case info.Refused:
		return fmt.Errorf("%s may have state here, which is out of reach: %s", id.Node, info.Warning)
	case info.Kind != state.Tmpfs:
		return fmt.Errorf("%s has state here, on %s: erase it with `spore reset`, or write the medium again", id.Node, cmp.Or(info.Disk, info.Device))
	}
	return nil
}

// choose keeps a choice.
func (m Machine) choose(ctx context.Context, c call.Call) (string, error) {
	id, err := m.Identity()
	if err != nil {
		return "", err
	}
	if err := m.mayChoose(id); err != nil {
		return "", err
	}
	if err := confirmed(c); err != nil {
		return "", err
	}
	if !m.Part.HasNode(c.Node) {
		return "", fmt.Errorf("the cluster has no node %.64q", c.Node)
	}
	err = m.withESP(ctx, func(e *fat.Editor, when time.Time) error {
		// A choice that was there, of a node that there is not any more, goes first: it would be taken for one that was made
		// here.
		for _, name := range []string{espfiles.Node, espfiles.ChosenHere} {
			if err := remove(e, name); err != nil {
				return err
			}
		}
		if err := e.MakeDirectory(path.Dir(path.Dir(espfiles.Node)), path.Base(path.Dir(espfiles.Node)), when); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		for _, name := range []string{espfiles.ChosenHere, espfiles.Node} {
			if err := e.Create(path.Dir(name), path.Base(name), int64(len(c.Node)), strings.NewReader(c.Node), when); err != nil {
				return err
			}
		}
		return nil
	}, c.Node)
	if err != nil {
		return "", err
	}
	m.Say("the node " + c.Node + " was chosen at this machine; restarting as it")
	return "this machine is " + c.Node + " from its next start on, which is now", nil
}

// undo takes a choice back.
func (m Machine) undo(ctx context.Context, c call.Call) (string, error) {
	id, err := m.Identity()
	if err != nil {
		return "", err
	}
	if err := m.mayUndo(id); err != nil {
		return "", err
	}
	if err := confirmed(c); err != nil {
		return "", err
	}
	if c.Node != m.chosenHere() {
		return "", fmt.Errorf("%.64q was not chosen on this machine", c.Node)
	}
	err = m.withESP(ctx, func(e *fat.Editor, _ time.Time) error {
		if err := remove(e, espfiles.Node); err != nil {
			return err
		}
		return remove(e, espfiles.ChosenHere)
	}, "")
	if err != nil {
		return "", err
	}
	m.Say("the choice of the node " + c.Node + " was undone at this machine; restarting")
	return "the choice of " + c.Node + " is undone, and the machine restarts now", nil
}

func confirmed(c call.Call) error {
	if c.Node == "" || c.Confirm != c.Node {
		return errors.New("the name that was typed is another one than that of the node: nothing was changed")
	}
	return nil
}

// remove removes a file that may be missing.
func remove(e *fat.Editor, name string) error {
	if err := e.Remove(path.Dir(name), path.Base(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// withESP changes the ESP, and reads from the medium that it chooses the node then.
func (m Machine) withESP(ctx context.Context, do func(*fat.Editor, time.Time) error, chosen string) (err error) {
	d, err := m.OpenESP(ctx, m.Boot.ESP)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return fmt.Errorf("the medium is write-protected: take its lock off, and try again; or write it for one node with "+
			"`spore flash --node NAME` (%w)", err)
	}
	if err != nil {
		return fmt.Errorf("open the ESP %s: %w", m.Boot.ESP, err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	e, err := fat.Edit(d, d.Size())
	if err == nil {
		// As `spore flash` has it: the time of the image, not of this machine.
		err = do(e, time.Unix(m.Boot.BuildTime, 0))
	}
	if err != nil {
		return fmt.Errorf("the ESP %s: %w", m.Boot.ESP, err)
	}
	fresh, _ := d.Fresh()
	now, err := read(fresh, d.Size(), espfiles.Node)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the ESP %s back: %w", m.Boot.ESP, err)
	}
	if string(now) != chosen {
		return fmt.Errorf("the ESP %s does not have what was written to it: the medium is worn out, take another one", m.Boot.ESP)
	}
	return nil
}

// read reads a small file of an ESP.
func read(r io.ReaderAt, size int64, name string) ([]byte, error) {
	f, err := fat.Open(r, size)
	if err != nil {
		return nil, err
	}
	list, err := f.List(path.Dir(name))
	if err != nil {
		return nil, err
	}
	e, ok := fat.Find(list, path.Base(name))
	if !ok || e.Dir {
		return nil, fs.ErrNotExist
	}
	if e.Size > maxName {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, e.Size, maxName)
	}
	content, err := f.Open(e)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = io.Copy(&b, content)
	return b.Bytes(), err
}

// alone keeps two calls from changing the ESP at once.
func (m Machine) alone() (end func(), err error) {
	name := m.Root.At(paths.ChoiceLock)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, errors.New("somebody chooses a node at the other terminal of this machine")
	}
	return func() { f.Close() }, nil
}
