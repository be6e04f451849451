package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/bootinfo"
	"spore/agent/detect"
	"spore/agent/firmware"
	"spore/agent/node"
	"spore/agent/state"
	"spore/agent/wait"
	"spore/cluster/answers"
	"spore/cluster/check"
	"spore/cluster/facts"
	"spore/cluster/identity"
	"spore/cluster/spec"
	"spore/storage/atomicfile"
	"spore/storage/flash"
	"spore/storage/gpt"
)

// order is what an unattended installation does.
type order struct {
	// name is how the disk is named where one word does that: a serial number, wwn:WWN or id:NAME.
	name string
	disk spec.DiskSelector
	// What follows is of an answer file alone. node is the node that the disk chooses, own the PARTUUID of its state, given
	// the disks that its file gives to services, mark that of the file and of the medium.
	node  string
	own   gpt.GUID
	given []spec.Disk
	erase bool
	mark  []byte
	then  string
}

// into has an installation keep to the order.
func (w order) into(o *Options) {
	o.EraseState, o.Own, o.Given, o.Choice.Installed = w.erase, w.own, w.given, w.mark
}

// leave does what the machine is to do when it is installed.
func (w order) leave(ctx context.Context, m *node.Machine) error {
	switch w.then {
	case spec.ThenPowerOff:
		m.Say("switching the machine off; it starts from the disk when it is switched on")
		return m.PowerOff(ctx)
	case spec.ThenStay:
		m.Say("the machine stays on, and starts from the disk when a person restarts it")
		return nil
	}
	m.Say("restarting from the disk")
	return m.Restart(ctx)
}

// answerSource is a place where an answer file can lie. All of them are outside: whoever has the medium, or answers on
// the network, can write one.
type answerSource struct {
	// name completes "the answer file of …".
	name string
	// read returns nothing where there is none.
	read func(context.Context, *node.Machine) ([]byte, error)
}

// sources are looked at in this order; the first that has an answer file counts. spore-install.service has a condition for
// each of them, without which it does not start.
var sources = []answerSource{
	{"the medium", fromESP},
	{"the server", fromServer},
	{"the volume CIDATA", fromVolume},
}

// fromESP is the file that stage1 found on the ESP of the medium.
func fromESP(_ context.Context, m *node.Machine) ([]byte, error) {
	return delivered(m, bootinfo.Answers)
}

// fromVolume is the file of a volume CIDATA. It counts on a machine that was started from a disc: one that runs from a disk,
// or always starts from the network, is not to be installed anew, or held up, by a volume that somebody has plugged in.
func fromVolume(_ context.Context, m *node.Machine) ([]byte, error) {
	if !m.Boot.BootDisk.Optical {
		return nil, nil
	}
	return delivered(m, bootinfo.AnswersNoCloud)
}

func delivered(m *node.Machine, path string) ([]byte, error) {
	data, err := atomicfile.ReadLimited(m.Root.At(path), bootinfo.MaxAnswers)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Of the server that the machine was started from.
const (
	// askWord is the word of the kernel command line by which it says that it has a file for this machine.
	askWord = "spore.answers"
	// askBound is how long the network may take to come up, askEvery how often that is tried.
	askBound = time.Minute
	askEvery = 2 * time.Second
)

// fromServer is the file that the server has for this machine.
func fromServer(ctx context.Context, m *node.Machine) ([]byte, error) {
	cmdline, _ := os.ReadFile(m.Root.At("/proc/cmdline"))
	if m.Boot.NetworkURL == "" || !slices.ContainsFunc(strings.Fields(string(cmdline)), func(word string) bool {
		key, _, _ := strings.Cut(word, "=")
		return key == askWord
	}) {
		return nil, nil
	}
	id, err := m.Identity()
	if err != nil {
		return nil, err
	}
	address := m.Boot.NetworkURL + "answers?" + saysOf(id).Encode()
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	for {
		data, err := download(ctx, address, answers.MaxSize)
		if status := statusError(""); err == nil || errors.As(err, &status) {
			return data, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(askEvery):
		}
	}
}

// wanted is the order that the firmware, the kernel command line or an answer file gives; nil when none does. Where two of
// them do, they name the same disk in the same way.
func wanted(ctx context.Context, m *node.Machine, from []answerSource) (*order, error) {
	name, err := asked(m)
	if err != nil {
		return nil, err
	}
	var w *order
	for _, s := range from {
		data, err := s.read(ctx, m)
		if err != nil {
			return nil, fmt.Errorf("read the answer file of %s: %w", s.name, err)
		}
		if len(data) == 0 {
			continue
		}
		if w, err = judge(m, data); err != nil {
			if runsFrom(ctx, m, data) {
				return nil, ErrBooted
			}
			return nil, fmt.Errorf("the answer file of %s: %w", s.name, err)
		}
		break
	}
	if name == "" {
		return w, nil
	}
	disk, err := ParseSelector(name)
	if err != nil {
		return nil, err
	}
	if w == nil {
		return &order{name: name, disk: disk}, nil
	}
	if disk != w.disk {
		return nil, fmt.Errorf("two disks are named for the system, %q by %s and %q by the answer file: name one", name, wordName, w.name)
	}
	return w, nil
}

// judge checks an answer file against the verified configuration and the machine.
func judge(m *node.Machine, data []byte) (*order, error) {
	f, report := answers.Parse(answers.Name, data)
	var nodes []facts.Node
	if m.Part.HasNode(f.Node) {
		n, err := m.Part.Node(f.Node)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, *n)
	}
	report = append(report, answers.Check(f, nodes)...).Sorted()
	if report.Failed() {
		return nil, oneLine(report)
	}
	cluster, err := m.Part.Cluster()
	if err != nil {
		return nil, err
	}
	if err := sameMachine(m, f.Node); err != nil {
		return nil, err
	}
	a := f.Answers
	a.FillDefaults()
	if a.State == spec.StateErase {
		if err := mayErase(m); err != nil {
			return nil, err
		}
	}
	return &order{
		name: a.Disk.Word(), disk: a.Disk, node: a.Node, own: state.PartUUID(cluster.ID, a.Node), given: nodes[0].Disks,
		erase: a.State == spec.StateErase, mark: markOf(m, data), then: a.Then,
	}, nil
}

// runsFrom tells whether the machine was started from the disk that a file names. Then nothing that is wrong with the file
// holds the node up: its configuration may have changed since the disk was written.
func runsFrom(ctx context.Context, m *node.Machine, data []byte) bool {
	if m.Boot.BootDisk.Path == "" {
		return false
	}
	f, _ := answers.Parse(answers.Name, data)
	// What is not known by now is found to be another disk, and the machine waits.
	_ = wait.Udev(ctx, m.Root.At("/run/udev"), detect.UdevBound, m.Say)
	host, err := flash.ThisHost(m.Root.At("/"))
	if err != nil {
		return false
	}
	_, err = Find(Options{Selector: f.Disk, Host: host, BootDisk: filepath.Base(m.Boot.BootDisk.Path)})
	return errors.Is(err, ErrBooted)
}

// sameMachine refuses a file for another node than the machine is. The medium's own choice of a node wins over the
// hardware wherever else a node is looked for; here a disk is about to be written, so that the hardware counts, too.
func sameMachine(m *node.Machine, node string) error {
	id, err := m.Identity()
	if err != nil {
		return err
	}
	if id.Known() && id.Node != node {
		return otherMachine(node, id.Result)
	}
	found, err := m.Part.Match(identity.Facts{MACs: id.Seen.MACs, Serial: id.Seen.Serial, UUID: id.Seen.UUID})
	if err != nil {
		return err
	}
	if found.Node != "" && found.Node != node {
		return otherMachine(node, found)
	}
	return nil
}

func otherMachine(node string, is identity.Result) error {
	return fmt.Errorf("it is for node %s, and this machine is %s, by its %s %s: take the medium of this node, or correct the file",
		node, is.Node, is.By, is.Value)
}

// mayErase refuses to erase state by the word of outside data where the firmware starts only what is signed: there the
// medium's system is trusted, and what lies beside it on the medium is not.
func mayErase(m *node.Machine) error {
	if err := needVariables(m); err != nil {
		return fmt.Errorf("it says state: erase, and whether Secure Boot is on cannot be read (%w): write state: keep", err)
	}
	f := firmware.Read(os.DirFS(m.Root.At("/")))
	if f == nil || !f.SecureBoot {
		return nil
	}
	return errors.New("it says state: erase, and nothing signed says so: with Secure Boot on an answer file keeps state. Write state: keep, " +
		"or have a person give the state up: spore install --erase-state")
}

// needVariables mounts the firmware's variables where nobody did.
func needVariables(m *node.Machine) error {
	vars := m.Root.At(efiVars)
	if names, _ := filepath.Glob(filepath.Join(vars, "*")); len(names) > 0 || !m.Boot.EFI {
		return nil
	}
	return unix.Mount("efivarfs", vars, "efivarfs", unix.MS_NOSUID|unix.MS_NOEXEC|unix.MS_NODEV, "")
}

// markOf tells one answer file on one build of the medium from all others. A disk that has it was installed so, whatever
// it was updated to since: the medium that was left in the machine does not put an old system back.
func markOf(m *node.Machine, data []byte) []byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte("spore answers"), []byte(m.Boot.RootHash), []byte(m.Boot.ClusterHash), data} {
		fmt.Fprintf(h, "%d\n", len(part))
		h.Write(part)
	}
	return []byte(hex.EncodeToString(h.Sum(nil)) + "\n")
}

// oneLine is a report for the console, where each refusal is one line.
func oneLine(r check.Report) error {
	var errs []error
	for _, p := range r {
		if p.Severity == check.Error {
			errs = append(errs, fmt.Errorf("line %d, column %d: %s", p.Line, p.Column, p.Message))
		}
	}
	if len(errs) > 1 {
		return fmt.Errorf("%w (and %d more errors; spore validate --answers shows all)", errs[0], len(errs)-1)
	}
	return errs[0]
}
