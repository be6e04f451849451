package choice

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/agent/bootinfo"
	"spore/agent/choice/call"
	"spore/agent/detect"
	"spore/agent/nocloud"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/state"
	"spore/cluster/facts"
	"spore/cluster/identity"
	"spore/storage/atomicfile"
	"spore/storage/fat"
	"spore/storage/flash"
	"spore/test/faults"
)

const size = 64 << 20

// medium is an ESP that keeps a record of its writes, and fails where the power is cut.
type medium struct {
	data  []byte
	wrote int
	// cut is the write, from 1, before which the power goes; 0 is never.
	cut int
	// worn is what it has in truth, though it says that it keeps what is written.
	worn []byte
}

var errPower = errors.New("the power is gone")

func (m *medium) Size() int64  { return int64(len(m.data)) }
func (m *medium) Close() error { return nil }
func (m *medium) Sync() error  { return nil }

func (m *medium) Fresh() (io.ReaderAt, string) {
	if m.worn != nil {
		return bytes.NewReader(m.worn), ""
	}
	return bytes.NewReader(m.data), ""
}

func (m *medium) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(m.data).ReadAt(b, off)
}

func (m *medium) WriteAt(b []byte, off int64) (int, error) {
	if m.cut > 0 && m.wrote == m.cut-1 {
		return 0, errPower
	}
	m.wrote++
	return copy(m.data[off:], b), nil
}

// esp is an ESP with these files besides a loader.
func esp(t testing.TB, files map[string]string) *medium {
	t.Helper()
	list := []fat.File{{Path: "/EFI/BOOT/BOOTX64.EFI", Size: 6, Content: strings.NewReader("loader")}}
	for name, text := range files {
		list = append(list, fat.File{Path: name, Size: int64(len(text)), Content: strings.NewReader(text)})
	}
	img, err := flash.NewESP(list, size, 0, flash.Choice{}, 512)
	require.NoError(t, err)
	m := &medium{data: make([]byte, size)}
	_, err = img.ReadAt(m.data, 0)
	require.NoError(t, err)
	return m
}

// content is what an ESP has, by path.
func content(t testing.TB, m *medium) map[string]string {
	t.Helper()
	f, err := fat.Open(bytes.NewReader(m.data), size)
	require.NoError(t, err)
	list, err := f.Walk()
	require.NoError(t, err)
	out := map[string]string{}
	for _, file := range list {
		b, err := io.ReadAll(io.NewSectionReader(file.Content, 0, file.Size))
		require.NoError(t, err)
		out[file.Path] = string(b)
	}
	return out
}

// machine matches no node of four, and was started from a medium.
func machine(t testing.TB, of *medium) (m Machine, restarts *int) {
	t.Helper()
	n, _ := nodetest.New(t, 4)
	restarts = new(int)
	n.Restart = func(context.Context) error { *restarts++; return nil }
	n.Boot = bootinfo.Info{ESP: "/dev/sda1", BootDisk: bootinfo.Disk{Path: "/dev/sda"}}
	m = Machine{Machine: n, OpenESP: func(context.Context, string) (Device, error) { return of, nil }}
	is(t, n, unmatched())
	return m, restarts
}

func unmatched() detect.Identity {
	return detect.Identity{Result: identity.Result{Problem: "this machine is in no file of the configuration"}, Seen: detect.Seen{
		MACs: []string{"52:54:00:99:00:01"}, Serial: "SN-2",
	}}
}

func is(t testing.TB, m *node.Machine, id detect.Identity) {
	t.Helper()
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.Identity), id))
}

// next is the machine after a restart, as stage1 and detection have it.
func (m Machine) next(t testing.TB, of *medium) string {
	t.Helper()
	files := content(t, of)
	m.Boot.ESPNode = files["/spore/node"]
	if chosen, there := files["/spore/chosen-here"]; there {
		nodetest.Put(t.(*testing.T), m.Machine, bootinfo.ChosenHere, chosen)
	}
	id := unmatched()
	var err error
	id.Result, err = m.Part.Match(identity.Facts{ESP: m.Boot.ESPNode})
	require.NoError(t, err)
	if !id.Known() {
		id = unmatched()
	}
	is(t, m.Machine, id)
	return id.Node
}

// ask makes a call as the pages do.
func ask(t testing.TB, m Machine, c call.Call) call.Answer {
	t.Helper()
	line, err := json.Marshal(c)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, m.serve(t.Context(), bytes.NewReader(append(line, '\n')), &out, time.Millisecond))
	var a call.Answer
	require.NoError(t, json.Unmarshal(out.Bytes(), &a))
	return a
}

func TestNodesThatNothingSpeaksAgainstAreListedFirst(t *testing.T) {
	m, _ := machine(t, esp(t, nil))
	id := unmatched()
	id.Seen.MACs = append(id.Seen.MACs, nodetest.MAC(3))
	id.Seen.Serial = ""
	is(t, m.Machine, id)
	v := ask(t, m, call.Call{Do: call.Look}).View
	require.NotNil(t, v)
	require.Empty(t, v.Refused)
	require.False(t, v.Bundle)
	var names []string
	for _, n := range v.Nodes {
		names = append(names, n.Name)
	}
	require.Equal(t, []string{"node-00003", "node-00000", "node-00001", "node-00002"}, names)
	require.Equal(t, []string{"card " + nodetest.MAC(3)}, v.Nodes[0].For)
	require.Equal(t, []string{"card " + nodetest.MAC(0)}, v.Nodes[1].Against)
	require.Equal(t, []string{"dns-server", "mqtt-broker"}, v.Nodes[0].Roles)
	nodetest.Put(t, m.Machine, bootinfo.Delivered, "age")
	require.True(t, ask(t, m, call.Call{Do: call.Look}).View.Bundle)
}

func TestThePersonIsToldWhoIsAskedForTheBundle(t *testing.T) {
	m, _ := machine(t, esp(t, nil))
	is(t, m.Machine, unmatched())
	require.Empty(t, ask(t, m, call.Call{Do: call.Look}).View.Enroll)
	enroll := func() {
		c, err := m.Part.Cluster()
		require.NoError(t, err)
		c.Enroll = "http://10.77.0.2:8080/"
		require.NoError(t, atomicfile.WriteJSON(filepath.Join(m.Part.Dir, facts.ClusterFile), c))
	}
	enroll()
	require.Empty(t, ask(t, m, call.Call{Do: call.Look}).View.Enroll, "an image without keys takes no bundle")
	nodetest.WithKeys(t, m.Machine)
	require.Equal(t, "http://10.77.0.2:8080/", ask(t, m, call.Call{Do: call.Look}).View.Enroll)
}

func TestAChoiceIsKeptAsFlashWritesIt(t *testing.T) {
	for name, before := range map[string]map[string]string{
		"no choice yet": nil, "a bundle of the medium": {"/spore/keep": "x"},
		"a node that there is not any more": {"/spore/keep": "x"},
	} {
		t.Run(name, func(t *testing.T) {
			of := esp(t, before)
			m, restarts := machine(t, of)
			want := content(t, of)
			if strings.HasPrefix(name, "a node") {
				e, err := fat.Edit(of, size)
				require.NoError(t, err)
				require.NoError(t, e.Create("/spore", "node", 4, strings.NewReader("gone"), time.Time{}))
			}
			a := ask(t, m, call.Call{Do: call.Choose, Node: "node-00002", Confirm: "node-00002"})
			require.Empty(t, a.Error)
			require.Contains(t, a.Done, "this machine is node-00002")
			require.Equal(t, 1, *restarts)
			want["/spore/node"], want["/spore/chosen-here"] = "node-00002", "node-00002"
			require.Equal(t, want, content(t, of))

			flashed, err := flash.NewESP(nil, size, 0, flash.Choice{Node: "node-00002"}, 512)
			require.NoError(t, err)
			disk := &medium{data: make([]byte, size)}
			_, err = flashed.ReadAt(disk.data, 0)
			require.NoError(t, err)
			require.Equal(t, content(t, disk)["/spore/node"], content(t, of)["/spore/node"])
			require.Equal(t, "node-00002", m.next(t, of))
		})
	}
}

func TestFlashTakesTheMarkOfAChoiceAway(t *testing.T) {
	require.NotContains(t, content(t, esp(t, map[string]string{"/spore/chosen-here": "node-00001"})), "/spore/chosen-here")
}

func TestNothingIsChosenWhere(t *testing.T) {
	fine := call.Call{Do: call.Choose, Node: "node-00002", Confirm: "node-00002"}
	for name, tc := range map[string]struct {
		change func(*Machine, *detect.Identity, *call.Call)
		want   string
	}{
		"the machine is a node": {func(_ *Machine, id *detect.Identity, _ *call.Call) {
			id.Result = identity.Result{Node: "node-00001", By: "mac"}
		}, "this machine is node-00001, by mac"},
		"it is not known yet": {func(_ *Machine, id *detect.Identity, _ *call.Call) { id.Problem = "" }, "still finding out"},
		"the name was typed otherwise": {func(_ *Machine, _ *detect.Identity, c *call.Call) { c.Confirm = "node-00003" },
			"another one than that of the node"},
		"no name was typed":     {func(_ *Machine, _ *detect.Identity, c *call.Call) { c.Node, c.Confirm = "", "" }, "another one than"},
		"there is no such node": {func(_ *Machine, _ *detect.Identity, c *call.Call) { c.Node, c.Confirm = "edge", "edge" }, `no node "edge"`},
		"the name leads elsewhere": {func(_ *Machine, _ *detect.Identity, c *call.Call) {
			c.Node, c.Confirm = "../nodes/node-00002", "../nodes/node-00002"
		}, "the cluster has no node"},
		"the command line chooses": {func(_ *Machine, id *detect.Identity, _ *call.Call) { id.By = identity.ByCmdline },
			"command line chooses a node"},
		"the firmware chooses": {func(_ *Machine, id *detect.Identity, _ *call.Call) { id.By = identity.BySMBIOS }, "firmware chooses a node"},
		"NoCloud contradicts": {func(_ *Machine, id *detect.Identity, _ *call.Call) {
			id.Ambiguous, id.Candidates = true, []identity.Candidate{{By: identity.ByESP}, {By: identity.ByNoCloud}}
		}, "NoCloud chooses a node"},
		"volumes of NoCloud disagree": {func(_ *Machine, id *detect.Identity, _ *call.Call) { id.NoCloud = &nocloud.Found{Disputed: true} },
			"NoCloud chooses a node"},
		"the network": {func(m *Machine, _ *detect.Identity, _ *call.Call) {
			m.Boot = bootinfo.Info{NetworkURL: "http://10.77.0.1/", ESP: "/dev/ram0p1"}
		}, "started from the network"},
		"a disc":             {func(m *Machine, _ *detect.Identity, _ *call.Call) { m.Boot.BootDisk.Optical = true }, "started from a disc"},
		"a disk without ESP": {func(m *Machine, _ *detect.Identity, _ *call.Call) { m.Boot.ESP = "" }, "no EFI system partition"},
		"a locked stick": {func(m *Machine, _ *detect.Identity, _ *call.Call) {
			m.OpenESP = func(context.Context, string) (Device, error) { return nil, unix.EROFS }
		}, "write-protected: take its lock off"},
		"a locked stick of another kernel": {func(m *Machine, _ *detect.Identity, _ *call.Call) {
			m.OpenESP = func(context.Context, string) (Device, error) { return nil, fs.ErrPermission }
		}, "write-protected"},
		"an ESP that is none": {func(m *Machine, _ *detect.Identity, _ *call.Call) {
			m.OpenESP = func(context.Context, string) (Device, error) { return &medium{data: make([]byte, size)}, nil }
		}, "the ESP /dev/sda1"},
	} {
		t.Run(name, func(t *testing.T) {
			of := esp(t, nil)
			m, restarts := machine(t, of)
			id, c := unmatched(), fine
			tc.change(&m, &id, &c)
			is(t, m.Machine, id)
			a := ask(t, m, c)
			require.Contains(t, a.Error, tc.want)
			require.Empty(t, a.Done)
			require.Zero(t, *restarts)
			require.Zero(t, of.wrote, "nothing was written")
		})
	}
}

func TestAMediumThatKeepsNothingIsNotBelieved(t *testing.T) {
	of := esp(t, nil)
	of.worn = bytes.Clone(of.data)
	m, restarts := machine(t, of)
	require.Contains(t, ask(t, m, call.Call{Do: call.Choose, Node: "node-00002", Confirm: "node-00002"}).Error, "worn out")
	require.Zero(t, *restarts)
}

// A cut before and after each write leaves no choice, or the whole one, and what was cut off is done by another call.
func TestAPowerCutLeavesNoChoiceOrAllOfIt(t *testing.T) {
	const name = "node-00001"
	chosen := esp(t, nil)
	m, _ := machine(t, chosen)
	start := bytes.Clone(chosen.data)
	require.Empty(t, ask(t, m, call.Call{Do: call.Choose, Node: name, Confirm: name}).Error)
	end := bytes.Clone(chosen.data)
	for _, tc := range []struct {
		do   string
		from []byte
		// now is what a whole call leaves.
		now string
	}{{call.Choose, start, name}, {call.Undo, end, ""}} {
		seen := map[string]int{}
		for cut := 1; ; cut++ {
			of := &medium{data: bytes.Clone(tc.from), cut: cut}
			m, restarts := machine(t, of)
			m.next(t, of)
			if tc.do == call.Undo {
				m.Boot.ESPNode = name
				require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.State), state.Info{Kind: state.Tmpfs}))
			}
			a := ask(t, m, call.Call{Do: tc.do, Node: name, Confirm: name})
			files := content(t, of)
			require.Contains(t, []string{"", name}, files["/spore/node"], "cut at %d", cut)
			if files["/spore/node"] != "" {
				require.Equal(t, name, files["/spore/chosen-here"], "it can be undone: cut at %d", cut)
			}
			require.Equal(t, "loader", files["/EFI/BOOT/BOOTX64.EFI"])
			seen[files["/spore/node"]]++
			if a.Error == "" {
				faults.Tried(t, cut-1)
				require.Equal(t, 1, *restarts)
				require.Equal(t, tc.now, files["/spore/node"])
				break
			}
			require.Contains(t, a.Error, errPower.Error())
			require.Zero(t, *restarts)
			// The power is back. What was not done can be done.
			of.cut = 0
			m, _ = machine(t, of)
			if is := m.next(t, of); is == tc.now {
				continue
			}
			if tc.do == call.Undo {
				m.Boot.ESPNode = name
				require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.State), state.Info{Kind: state.Tmpfs}))
			}
			require.Empty(t, ask(t, m, call.Call{Do: tc.do, Node: name, Confirm: name}).Error, "cut at %d", cut)
			require.Equal(t, tc.now, content(t, of)["/spore/node"])
		}
		require.Len(t, seen, 2, tc.do)
	}
}

func TestAChoiceIsUndoneAsLongAsThereIsNoState(t *testing.T) {
	const name = "node-00001"
	for what, tc := range map[string]struct {
		change func(*Machine)
		want   string
	}{
		"no state": {func(*Machine) {}, ""},
		"state":    {func(m *Machine) { stateIs(t, m, state.Info{Kind: state.Partition, Disk: "S1"}) }, "has state here, on S1"},
		"state that is out of reach": {func(m *Machine) {
			stateIs(t, m, state.Info{Kind: state.Tmpfs, Refused: true, Warning: "no key"})
		}, "out of reach: no key"},
		"state of which nothing is known": {func(m *Machine) { require.NoError(t, os.Remove(m.Root.At(paths.State))) }, "it is not known"},
		"a choice of flash": {func(m *Machine) { require.NoError(t, os.Remove(m.Root.At(bootinfo.ChosenHere))) },
			"no node was chosen on this machine"},
		"a mark of another node": {func(m *Machine) { nodetest.Put(t, m.Machine, bootinfo.ChosenHere, "node-00003") },
			"no node was chosen on this machine"},
		"a machine that matches no node by now": {func(m *Machine) { is(t, m.Machine, unmatched()); stateIs(t, m, state.Info{Kind: state.Partition}) }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			of := esp(t, nil)
			m, restarts := machine(t, of)
			require.Empty(t, ask(t, m, call.Call{Do: call.Choose, Node: name, Confirm: name}).Error)
			m.Boot.ESPNode = m.next(t, of)
			stateIs(t, &m, state.Info{Kind: state.Tmpfs})
			tc.change(&m)
			v := ask(t, m, call.Call{Do: call.Look}).View
			require.NotNil(t, v)
			if v.Chosen != "" {
				require.Equal(t, tc.want == "", v.Stays == "", v.Stays)
			}
			require.Contains(t, ask(t, m, call.Call{Do: call.Undo, Node: name, Confirm: "node"}).Error, tc.want)
			a := ask(t, m, call.Call{Do: call.Undo, Node: name, Confirm: name})
			if tc.want != "" {
				require.Contains(t, a.Error, tc.want)
				require.Equal(t, name, content(t, of)["/spore/node"])
				require.Equal(t, 1, *restarts)
				return
			}
			require.Empty(t, a.Error)
			require.Equal(t, 2, *restarts)
			require.NotContains(t, content(t, of), "/spore/node")
			require.NotContains(t, content(t, of), "/spore/chosen-here")
		})
	}
}

func stateIs(t testing.TB, m *Machine, info state.Info) {
	t.Helper()
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.State), info))
}

func TestTwoTerminalsDoNotChooseAtOnce(t *testing.T) {
	of := esp(t, nil)
	m, restarts := machine(t, of)
	end, err := m.alone()
	require.NoError(t, err)
	c := call.Call{Do: call.Choose, Node: "node-00002", Confirm: "node-00002"}
	require.Contains(t, ask(t, m, c).Error, "at the other terminal")
	require.Zero(t, of.wrote)
	require.NotNil(t, ask(t, m, call.Call{Do: call.Look}).View, "who looks waits for nobody")
	end()
	require.Empty(t, ask(t, m, c).Error)
	require.Equal(t, 1, *restarts)
}

func TestACallThatIsMalformedChangesNothing(t *testing.T) {
	of := esp(t, nil)
	m, restarts := machine(t, of)
	for _, line := range []string{"", "x\n", "{}\n", `{"do":"choose"}`, `{"do":"rm"}` + "\n", `{"do":"choose","x":1}` + "\n",
		`{"do":"` + strings.Repeat("x", 2*call.MaxCall) + `"}` + "\n"} {
		var out bytes.Buffer
		require.NoError(t, m.serve(t.Context(), strings.NewReader(line), &out, 0))
		var a call.Answer
		require.NoError(t, json.Unmarshal(out.Bytes(), &a), line)
		require.NotEmpty(t, a.Error, line)
	}
	require.Zero(t, of.wrote)
	require.Zero(t, *restarts)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"do":"look"}` + "\n"))
	f.Add([]byte(`{"do":"choose","node":"edge-01","confirm":"edge-01"}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse(bytes.NewReader(data))
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(fmt.Sprint(c)), call.MaxCall)
	})
}
