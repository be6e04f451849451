package install

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"spore/agent/bootdisk"
	"spore/agent/bootinfo"
	"spore/agent/bundle"
	"spore/agent/delivery"
	"spore/agent/detect"
	"spore/agent/medium"
	"spore/agent/node"
	"spore/agent/slot"
	"spore/agent/wait"
	"spore/cluster/spec"
	"spore/pki/seal"
	"spore/storage/atomicfile"
	"spore/storage/fat"
	"spore/storage/flash"
)

const (
	// wordName is the credential, and with = the word of the kernel command line, that names a disk.
	wordName = "spore.install"
	// retryEvery is the wait after a refusal: the disk may be plugged in.
	retryEvery = 30 * time.Second
	// sayEvery is how often a line tells how far it is.
	sayEvery = 5 * time.Second
	// ukiName is the UKI beside the image on the server that the system came from, maxUKI its bound in bytes.
	ukiName = "spore.efi"
	maxUKI  = 512 << 20
	// fetchBound is the longest that it may take.
	fetchBound = 10 * time.Minute
	// tellBound is the longest that the server may take to hear that the system is installed.
	tellBound = 10 * time.Second
	efiVars   = "/sys/firmware/efi/efivars"
)

// Wish is what a person asks for.
type Wish struct {
	Disk spec.DiskSelector
	// Node is another node than the medium chose.
	Node string
	// Erase is the serial number of the disk whose state may be lost.
	Erase string
	// Yes says that nobody is asked.
	Yes bool
}

// Attended puts the system that runs on a disk of the machine, for a person who watches.
func Attended(ctx context.Context, m *node.Machine, w Wish, in io.Reader, out io.Writer) error {
	m.ReadBoot()
	m.FindDisks(ctx)
	o, done, err := gather(ctx, m, w.Disk, w.Node, false)
	if err != nil {
		return err
	}
	defer done()
	if w.Erase != "" {
		t, err := Find(o)
		if err != nil {
			return err
		}
		if !strings.EqualFold(t.Serial(), w.Erase) {
			return fmt.Errorf("--erase-state names %q, and %s has the serial number %s; nothing was written", w.Erase, t.Path(), t.Serial())
		}
		o.EraseState = true
	}
	o.Confirm = func(t flash.Target, content string) error {
		fmt.Fprintf(out, "%s holds: %s.\n", t.Where(), content)
		if o.BundleNote != "" {
			fmt.Fprintln(out, o.BundleNote)
		}
		if w.Yes {
			return nil
		}
		return confirmInstall(in, out)
	}
	r, err := Run(ctx, o, true)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s; read back and compared.\n%s\nTake the medium out and restart the machine.\n", r.Target.Path(), r.Report.Saved(), registerBoot(m, r, true))
	return nil
}

func confirmInstall(in io.Reader, out io.Writer) error {
	fmt.Fprint(out, "Install on it? What it holds is lost, but for state that is kept. [y/N] ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was written; answer y, or give --yes")
	}
	return nil
}

// Unattended does what the firmware, the kernel command line or an answer file asks for, and restarts the machine. Until
// then nothing else of the node begins: no state is made on the medium. What stands in the way is said, and tried again.
func Unattended(ctx context.Context, m *node.Machine) error {
	m.ReadBoot()
	w, err := wanted(ctx, m, sources)
	if w == nil && err == nil {
		return nil
	}
	for said := ""; ; {
		if err == nil {
			err = once(ctx, m, *w)
		}
		switch {
		case err == nil:
			if err = w.leave(ctx, m); err == nil {
				<-ctx.Done()
				return nil
			}
		case errors.Is(err, ErrBooted):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if text := err.Error(); text != said {
			said = text
			m.Say("not installed: " + text + ". The machine waits, and tries again every " + retryEvery.String())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryEvery):
		}
		if w, err = wanted(ctx, m, sources); w == nil && err == nil {
			return nil
		}
	}
}

// asked is the disk that the firmware or the kernel command line names; empty when neither does.
func asked(m *node.Machine) (string, error) {
	var given []string
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		data, err := os.ReadFile(filepath.Join(dir, wordName))
		if err == nil && len(data) <= 256 {
			given = append(given, strings.TrimSpace(string(data)))
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	cmdline, _ := os.ReadFile(m.Root.At("/proc/cmdline"))
	for _, word := range strings.Fields(string(cmdline)) {
		if value, ok := strings.CutPrefix(word, wordName+"="); ok {
			given = append(given, value)
		}
	}
	for _, g := range given {
		if g != given[0] {
			return "", fmt.Errorf("two disks are named for the system, %q and %q: name one", given[0], g)
		}
	}
	if len(given) == 0 {
		return "", nil
	}
	return given[0], nil
}

func once(ctx context.Context, m *node.Machine, w order) error {
	if err := wait.Udev(ctx, m.Root.At("/run/udev"), detect.UdevBound, m.Say); err != nil {
		return err
	}
	m.FindDisks(ctx)
	o, done, err := gather(ctx, m, w.disk, w.node, false)
	if err != nil {
		return err
	}
	defer done()
	w.into(&o)
	meter, last := flash.Meter{Now: m.Now}, m.Now()
	o.Confirm = func(t flash.Target, content string) error {
		m.Say("installing on " + t.Where() + ", which holds: " + content)
		if o.BundleNote != "" {
			m.Say(o.BundleNote)
		}
		if o.BundleFrom == delivery.NoCloud {
			m.Say("the disk gets the bundle of NoCloud's user-data")
		}
		return nil
	}
	o.Progress = func(p flash.Progress) {
		if now := m.Now(); now.Sub(last) >= sayEvery || p.Done == p.Total {
			last = now
			m.Say(meter.Line(p))
		}
	}
	r, err := Run(ctx, o, false)
	if (errors.Is(err, ErrThere) || errors.Is(err, ErrDone)) && m.Boot.NetworkURL != "" {
		// A cut came between the end of the writing and the word to the server, or that was lost.
		if told := tellInstalled(ctx, m, w.name); told == nil {
			m.Say(fmt.Sprintf("%v. %s", err, registerBoot(m, r, true)))
			return nil
		}
	}
	if errors.Is(err, ErrThere) || errors.Is(err, ErrDone) {
		return fmt.Errorf("%w. %s. Take the medium out, or put the disk first in the firmware's order, and restart the machine", err, registerBoot(m, r, false))
	}
	if err != nil {
		return err
	}
	m.Say(fmt.Sprintf("installed on %s: %s; read back and compared. %s", r.Target.Path(), r.Report.Saved(), registerBoot(m, r, true)))
	if m.Boot.NetworkURL != "" {
		if err := tellInstalled(ctx, m, w.name); err != nil {
			m.Say(fmt.Sprintf("the server does not know of it (%v), and may start this machine again", err))
		}
	}
	for _, p := range r.Report.Kept {
		m.Say("kept the state partition " + p.GUID.String())
	}
	if r.Report.Note != "" {
		m.Say(r.Report.Note)
	}
	return nil
}

// tellInstalled tells the server that the system came from that it is on the disk that was named, so that it sends the
// machine there when it asks next. Only a server that gave the order takes it.
func tellInstalled(ctx context.Context, m *node.Machine, disk string) error {
	id, err := m.Identity()
	if err != nil {
		return err
	}
	said := saysOf(id)
	said.Set("disk", disk)
	ctx, cancel := context.WithTimeout(ctx, tellBound)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Boot.NetworkURL+"installed?"+said.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the server says %s", response.Status)
	}
	return nil
}

// saysOf is what a machine says of itself to the server that it was started from.
func saysOf(id detect.Identity) url.Values {
	return url.Values{"mac": id.Seen.MACs, "serial": {id.Seen.Serial}, "uuid": {id.Seen.UUID}}
}

// gather finds out what is installed and where. withoutCloud leaves out NoCloud's bundle. done closes the medium.
func gather(ctx context.Context, m *node.Machine, selector spec.DiskSelector, node string, withoutCloud bool) (o Options, done func(), err error) {
	o.Selector = selector
	if o.Host, err = flash.ThisHost(m.Root.At("/")); err != nil {
		return o, nil, err
	}
	if m.Boot.BootDisk.Path != "" {
		o.BootDisk = filepath.Base(m.Boot.BootDisk.Path)
	}
	// First of all: a node that runs from the disk needs none of what follows.
	if _, err := Find(o); err != nil {
		return o, nil, err
	}
	if !m.Boot.EFI {
		return o, nil, errors.New("this machine was started without UEFI, and the disk would only start with it: turn UEFI on in the firmware's setup, and start again")
	}
	if err = o.choose(m, node, withoutCloud); err != nil {
		return o, nil, err
	}
	o.Open = func(t flash.Target) (Device, error) { return flash.Open(m.Root.At(t.Path())) }
	o.Source, done, err = runningSource(ctx, m)
	return o, done, err
}

// choose takes the node that the medium chose, or another one, and the bundle that came with the machine.
func (o *Options) choose(m *node.Machine, node string, withoutCloud bool) error {
	o.Choice = flash.Choice{Node: m.Boot.ESPNode, Time: time.Unix(m.Boot.BuildTime, 0)}
	if node != "" {
		if _, err := m.Part.Node(node); err != nil {
			return fmt.Errorf("node %q: %w", node, err)
		}
		o.Choice.Node = node
	}
	data, err := os.ReadFile(m.Root.At(bootinfo.Delivered))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(data) > 0 && !medium.Erased(data) {
		o.Choice.Bundle, o.BundleFrom = data, delivery.Medium
	}
	if withoutCloud {
		return nil
	}
	cloud, note, err := cloudBundle(m, o.Choice.Node)
	if err != nil {
		return err
	}
	if o.BundleNote = note; newer(cloud, o.Choice.Bundle) {
		o.Choice.Bundle, o.BundleFrom = cloud, delivery.NoCloud
	}
	return nil
}

// cloudBundle is the bundle that NoCloud brought for a node, or for the one that the machine is: the disk starts without
// the volume, too. Whoever can write a volume can write anything there, so that one that the cluster has not signed for
// the node stays where it is, and note says so: on the disk it would keep out one that is good. Whose one with a
// passphrase is, only that tells.
func cloudBundle(m *node.Machine, node string) (data []byte, note string, err error) {
	data, err = atomicfile.ReadLimited(m.Root.At(bootinfo.DeliveredNoCloud), bootinfo.MaxDelivered)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("take the bundle of NoCloud along: %w", err)
	}
	if seal.IsSealed(data) {
		return data, "", nil
	}
	if node == "" {
		id, err := m.Identity()
		if err != nil {
			return nil, "", err
		}
		node = id.Node
	}
	if node == "" {
		return nil, "the bundle of NoCloud's user-data is not taken along: nothing says which node the machine is", nil
	}
	if err := bundle.Check(m, node, data); err != nil {
		return nil, fmt.Sprintf("the bundle of NoCloud's user-data is not taken along: %v", err), nil
	}
	return data, "", nil
}

// runningSource opens what the machine was started from.
func runningSource(ctx context.Context, m *node.Machine) (Source, func(), error) {
	w, err := bootdisk.WantedFor(m.Boot.RootHash, m.Boot.ClusterHash)
	if err != nil {
		return Source{}, nil, fmt.Errorf("what stage1 found: %w", err)
	}
	want := Wanted{w.Root, w.Verity, w.Cluster}
	if m.Boot.NetworkURL != "" {
		return networkSource(ctx, m, want)
	}
	if m.Boot.BootDisk.Path == "" {
		return Source{}, nil, errors.New("it is not known which medium this machine was started from")
	}
	f, err := flash.OpenRead(m.Root.At(m.Boot.BootDisk.Path))
	if err != nil {
		return Source{}, nil, err
	}
	sector := f.SectorSize()
	if m.Boot.BootDisk.Optical {
		sector = 512 // The table of a hybrid image has those of a disk.
	}
	s, err := Medium(f, f.Size(), sector, want)
	if err == nil {
		s.ESP, err = slot.Copied(s.ESP, m.Boot.RootHash, m.Boot.ClusterHash)
	}
	if err != nil {
		f.Close()
		return Source{}, nil, fmt.Errorf("%s, which this machine was started from: %w", m.Boot.BootDisk.Path, err)
	}
	return s, func() { f.Close() }, nil
}

// networkSource takes the verified parts from memory, and the UKI from the server that they came from. Nothing but its
// hashes ties that to what runs, as nothing but the network brought what runs: whoever must trust neither signs images.
func networkSource(ctx context.Context, m *node.Machine, want Wanted) (s Source, done func(), err error) {
	var files []io.Closer
	closeAll := func() {
		for _, f := range files {
			f.Close()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	for i, path := range []string{m.Boot.RootPart, m.Boot.VerityPart, m.Boot.ClusterPart} {
		f, err := flash.OpenRead(m.Root.At(path))
		if err != nil {
			return s, nil, err
		}
		files = append(files, f)
		s.Parts[i] = Part{GUID: want[i], Size: f.Size(), Content: f}
	}
	uki, err := fetch(ctx, m.Boot.NetworkURL+ukiName)
	if err != nil {
		return s, nil, fmt.Errorf("%w; without it the disk would not start", err)
	}
	if !bytes.Contains(uki, []byte("roothash="+m.Boot.RootHash)) || !bytes.Contains(uki, []byte("spore.clusterhash="+m.Boot.ClusterHash)) {
		return s, nil, fmt.Errorf("%s%s belongs to another build than the system that runs: start the machine again", m.Boot.NetworkURL, ukiName)
	}
	s.ESP = []fat.File{{Path: LoaderPath, Size: int64(len(uki)), Content: bytes.NewReader(uki)}}
	return s, closeAll, nil
}

// fetch downloads a UKI.
func fetch(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchBound)
	defer cancel()
	return download(ctx, url, maxUKI)
}

// statusError is that the server answers, and gives nothing.
type statusError string

func (s statusError) Error() string { return string(s) }

// download takes at most limit bytes.
func download(ctx context.Context, url string, limit int64) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, statusError(fmt.Sprintf("%s: the server says %s", url, response.Status))
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it has more than %d KiB", limit>>10)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return data, nil
}

// registerBoot makes the disk the first that the firmware starts from, and with next that of the very next start; it
// says how that went. Without next, a machine whose firmware prefers the medium does not go in circles.
func registerBoot(m *node.Machine, r Result, next bool) string {
	vars := m.Root.At(efiVars)
	if err := needVariables(m); err != nil {
		return "The firmware's boot entries cannot be changed (" + err.Error() + "): it finds the disk by " + LoaderPath
	}
	name, err := Register(vars, "Spore on "+r.Target.Serial(), r.ESP, r.SectorSize, next)
	if err != nil {
		return "The firmware's boot entries cannot be changed (" + err.Error() + "): it finds the disk by " + LoaderPath
	}
	return "The firmware's boot entry " + name + " leads to it and is the first"
}
