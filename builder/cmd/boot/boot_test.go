package boot

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/builder/rehearsal"
	"spore/builder/vm"
	"spore/cluster/facts"
)

func TestArguments(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("out/vm/edge-01", 0o700))
	for _, tt := range []struct {
		name  string
		f     flags
		args  []string
		out   string
		nodes []string
		err   string
	}{
		{"a node", flags{nodes: []string{"a"}}, nil, "out", nil, ""},
		{"a node of a folder", flags{nodes: []string{"a"}}, []string{"other"}, "other", nil, ""},
		{"all", flags{all: true}, nil, "out", nil, ""},
		{"a console to attach to", flags{console: "a"}, nil, "out", nil, ""},
		{"kill all", flags{kill: true}, nil, "out", nil, ""},
		{"kill all of a folder", flags{kill: true}, []string{"out"}, "out", nil, ""},
		{"kill one of out", flags{kill: true}, []string{"edge-01"}, "out", []string{"edge-01"}, ""},
		{"kill two of a folder", flags{kill: true}, []string{"other", "a", "b"}, "other", []string{"a", "b"}, ""},
		{"kill one that is named", flags{kill: true, nodes: []string{"a"}}, nil, "out", []string{"a"}, ""},
		{"nothing", flags{}, nil, "", nil, "name the nodes"},
		{"a node as an argument", flags{nodes: []string{"a"}}, []string{"out", "b"}, "", nil, `unknown argument "b"`},
		{"all and one", flags{all: true, nodes: []string{"a"}}, nil, "", nil, "exclude each other"},
		{"kill and all", flags{kill: true, all: true}, nil, "", nil, "--kill goes with"},
		{"JSON and a console", flags{all: true, json: true, console: "a"}, nil, "", nil, "exclude each other"},
		{"a medium that is none", flags{all: true, medium: "floppy"}, nil, "", nil, "it can be disk, "},
		{"install from the disk itself", flags{all: true, medium: "disk", install: true}, nil, "", nil, "--install needs another medium"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes, err := tt.f.take(tt.args)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.out, tt.f.out)
			require.ElementsMatch(t, tt.nodes, nodes)
		})
	}
}

func TestWrongUsageStartsNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{}, {"--node", "a", "--all"}, {"--node", "a"}, {"--nothing"}} {
		cmd := Command()
		cmd.SetArgs(args)
		cmd.SetOut(&bytes.Buffer{})
		cmd.SetErr(&bytes.Buffer{})
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		require.Error(t, cmd.Execute(), args)
		require.NoDirExists(t, "out")
	}
}

func TestMemoryIsSetForAllOrForOne(t *testing.T) {
	machines := func() []rehearsal.Machine {
		return []rehearsal.Machine{{Node: &facts.Node{Name: "a"}, Memory: 1}, {Node: &facts.Node{Name: "b"}, Memory: 2}}
	}
	for _, tt := range []struct {
		list []string
		a, b int
		err  string
	}{
		{nil, 1, 2, ""},
		{[]string{"4096"}, 4096, 4096, ""},
		{[]string{"4096", "b=512"}, 4096, 512, ""},
		{[]string{"a=300"}, 300, 2, ""},
		{[]string{"c=300"}, 0, 0, `names "c"`},
		{[]string{"2G"}, 0, 0, "write MiB"},
		{[]string{"a=1"}, 0, 0, "at least 256"},
		{[]string{"=512"}, 0, 0, `names ""`},
	} {
		m := machines()
		err := setMemory(m, tt.list)
		if tt.err != "" {
			require.ErrorContains(t, err, tt.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []int{tt.a, tt.b}, []int{m[0].Memory, m[1].Memory}, tt.list)
	}
}

func TestTheMachinesOwnDiskHasASerialNumberOfItsOwn(t *testing.T) {
	plan := func(name string, serials ...string) rehearsal.Machine {
		m := rehearsal.Machine{Node: &facts.Node{Name: name}}
		for _, s := range serials {
			m.Disks = append(m.Disks, rehearsal.Disk{Device: vm.Disk{Serial: s}})
		}
		return m
	}
	require.Equal(t, "edge-01", ownSerial(plan("edge-01", "DATA")))
	require.Equal(t, "a-name-that-is-longe", ownSerial(plan("a-name-that-is-longer-than-a-serial")))
	require.Equal(t, "BOOT", ownSerial(plan("edge-01", "edge-01")))
	require.Equal(t, "SPORE-BOOT-DISK", ownSerial(plan("a", "a", "BOOT", "BOOT-DISK")))
}

func TestFreeMemory(t *testing.T) {
	mib, ok := available("MemTotal:       24000000 kB\nMemAvailable:   18874368 kB\n")
	require.True(t, ok)
	require.Equal(t, 18432, mib)
	_, ok = available("MemAvailable: much kB\n")
	require.False(t, ok)
	_, ok = available("")
	require.False(t, ok)
}

func TestHowManyProcessorsAMachineHas(t *testing.T) {
	one := []*machine{{}}
	for name, c := range map[string]struct {
		machines []*machine
		asked    int
		accel    vm.Accel
		want     int
		warning  string
	}{
		"one machine":                       {one, 0, vm.Accel{}, 2, ""},
		"one machine with an old QEMU":      {one, 0, vm.Accel{OneCPU: true}, 1, ""},
		"several machines":                  {append(one, one...), 0, vm.Accel{}, 1, ""},
		"what is asked for":                 {append(one, one...), 4, vm.Accel{}, 4, ""},
		"what an old QEMU is not asked for": {one, 2, vm.Accel{OneCPU: true}, 2, "the kernel panics now and then"},
		"one, which is never wrong":         {one, 1, vm.Accel{OneCPU: true}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			s := &session{flags: flags{cpus: c.asked}, machines: c.machines, reporter: &reporter{w: &said}}
			require.Equal(t, c.want, s.cpus(c.accel))
			s.warnOfCPUs(c.accel)
			require.Contains(t, said.String(), c.warning)
			require.Equal(t, c.warning == "", said.Len() == 0)
		})
	}
}

func TestEmulatedMachinesAreToldThatTheyAreSlow(t *testing.T) {
	s := &session{flags: flags{words: []string{"quiet", "spore.slow=9"}}}
	require.Equal(t, []string{"quiet", "spore.slow=9"}, s.pace(vm.Accel{Name: "kvm"}))
	require.Equal(t, []string{"spore.slow=5", "quiet", "spore.slow=9"}, s.pace(vm.Accel{Name: "tcg"}), "the last one counts")
}

func TestAStatusIsToldInFewWords(t *testing.T) {
	for line, want := range map[string]string{
		`{"spore":1,"node":"a","system":"running","roles":["dns-server","mqtt-broker"]}`:                                                         "running, dns-server mqtt-broker",
		`{"spore":1,"node":"a","system":"starting","held":[{"role":"mqtt-broker","reason":"x is missing"}],"bundle":{"problem":"none came"}}`:    "starting; held: mqtt-broker (x is missing); none came",
		`{"spore":1,"node":"a","system":"degraded","failed":["x.service"],"waiting":{"kafka":"waiting for b"},"state":{"warning":"on a tmpfs"}}`: "degraded; waiting for b; failed: x.service; on a tmpfs",
		`{"spore":1,"node":"","system":"running","problem":"no node has the MAC"}`:                                                               "no node: no node has the MAC",
	} {
		s, ok := vm.ParseStatus(line)
		require.True(t, ok)
		require.Equal(t, want, say(s))
	}
	require.JSONEq(t, `{"spore":1}`, string(only(`{"spore":1} [ 3.1] usb`)))
	require.Nil(t, only(`{"spore":`))
}

func TestEventsAreLinesForPeopleAndJSONForPrograms(t *testing.T) {
	var people, programs bytes.Buffer
	for w, r := range map[*bytes.Buffer]*reporter{&people: {w: &people}, &programs: {w: &programs, json: true}} {
		r.warn("", "of all")
		r.killed("a", true, true)
		r.ended("b", true)
		require.NotEmpty(t, w.String())
	}
	require.Equal(t, "warning: of all\na: ended, forgotten\nb: has ended\n", people.String())
	require.Equal(t, `{"event":"warning","text":"of all"}`+"\n"+`{"event":"killed","node":"a","text":"ended, forgotten"}`+"\n"+`{"event":"ended","node":"b"}`+"\n", programs.String())
}

func TestKillSaysWhatItKnowsNothingOf(t *testing.T) {
	folder := rehearsal.Folder(filepath.Join(t.TempDir(), "vm"))
	var out bytes.Buffer
	r := &reporter{w: &out}
	require.NoError(t, kill(t.Context(), r, folder, nil, false))
	require.Empty(t, out.String())
	state, err := folder.Hold("a")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(state.Dir, "disk.qcow2"), nil, 0o600))
	require.ErrorContains(t, kill(t.Context(), r, folder, []string{"a"}, true), "runs already")
	require.NoError(t, state.Close())
	err = kill(t.Context(), r, folder, []string{"b", "a"}, true)
	require.ErrorContains(t, err, `no data of a node "b"`)
	require.Equal(t, "a: did not run, forgotten\n", out.String())
	require.NoFileExists(t, filepath.Join(state.Dir, "disk.qcow2"))
}

func TestNobodyAttachesToAMachineThatDoesNotRun(t *testing.T) {
	var out bytes.Buffer
	err := attach(t.Context(), &out, rehearsal.Folder(t.TempDir()), "a")
	require.ErrorContains(t, err, "a does not run")
	require.ErrorContains(t, err, "start it with --node a")
}

func TestCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c")
	require.NoError(t, os.WriteFile(file, []byte("secret=1"), 0o600))
	got, err := readCredentials([]string{"spore.bundle=" + file})
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"spore.bundle": []byte("secret=1")}, got)

	_, err = readCredentials([]string{"nothing"})
	require.Equal(t, exit.Misuse, exit.Code(err))
	_, err = readCredentials([]string{"a=" + file + ".not"})
	require.Equal(t, exit.Failed, exit.Code(err))
}

func TestTheMediumIsWhatWasBuilt(t *testing.T) {
	out := t.TempDir()
	for _, tt := range []struct {
		f    flags
		want string
	}{
		{flags{}, "spore build -o " + out + " --format disk"},
		{flags{install: true}, "--format disk"},
		{flags{medium: mediumUSB}, "--format disk"},
		{flags{medium: mediumISO}, filepath.Join(out, "spore.iso") + "; build it with"},
		{flags{medium: mediumNet}, "--format disk,netboot"},
	} {
		tt.f.out = out
		_, err := tt.f.findMedium()
		require.ErrorContains(t, err, tt.want)
		require.Equal(t, exit.Misuse, exit.Code(err))
	}
	require.NoError(t, os.WriteFile(filepath.Join(out, "spore.iso"), []byte("no image"), 0o600))
	m, err := flags{out: out, install: true}.findMedium()
	require.Equal(t, mediumISO, m.kind, "where there is one")
	require.ErrorContains(t, err, "spore.iso")
}

func TestAMachineHasTheDisksThatItsMediumAsksFor(t *testing.T) {
	img := filepath.Join(t.TempDir(), "spore.img")
	require.NoError(t, os.WriteFile(img, make([]byte, 1<<20), 0o600))
	plan := rehearsal.Machine{Node: &facts.Node{Name: "a"}, Disks: []rehearsal.Disk{{Name: "osd-A", Size: 1 << 20, Device: vm.Disk{Serial: "A"}}}}
	for _, tt := range []struct {
		kind     string
		install  bool
		want     string
		installs string
	}{
		{mediumDisk, false, "disk.qcow2 1, osd-A.qcow2 0", ""},
		{mediumUSB, false, "stick.qcow2 2 usb, osd-A.qcow2 0", ""},
		{mediumUSB, true, "disk.qcow2 1, stick.qcow2 2 usb, osd-A.qcow2 0", "a"},
		{mediumISO, false, "spore.img 2 disc, osd-A.qcow2 0", ""},
		{mediumISO, true, "disk.qcow2 1, spore.img 2 disc, osd-A.qcow2 0", "a"},
	} {
		state, err := rehearsal.Folder(t.TempDir()).Hold("a")
		require.NoError(t, err)
		disks, installs, err := medium{kind: tt.kind, image: img, id: "one"}.disks(t.Context(), plan, state, tt.install)
		require.NoError(t, err)
		require.Equal(t, tt.installs, installs)
		var got []string
		for _, d := range disks {
			text := fmt.Sprintf("%s %d", filepath.Base(d.Path), d.BootIndex)
			if d.USB {
				text += " usb"
			}
			if d.CDROM {
				text += " disc"
			}
			got = append(got, text)
		}
		require.Equal(t, tt.want, strings.Join(got, ", "))
		require.NoError(t, state.Close())
	}
}

func TestAMachineStartsFromTheNetworkByItsOwnGateway(t *testing.T) {
	nics := []vm.NIC{{MAC: "a"}, {MAC: "b"}, {Gateway: "10.77.0.1"}}
	same, words := medium{kind: mediumDisk}.plug(nics)
	require.Equal(t, nics, same)
	require.Empty(t, words)

	m := medium{kind: mediumNet, folder: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(m.folder, "root.squashfs"), []byte("0123456789"), 0o600))
	require.NoError(t, m.serve(t.Context()))
	got, words := m.plug(nics)
	require.Equal(t, []vm.NIC{{MAC: "a", BootIndex: 2}, {MAC: "b"}, {Gateway: "10.77.0.1", TFTP: m.folder, Bootfile: "spore.efi"}}, got)
	require.Equal(t, []string{fmt.Sprintf("spore.url=http://10.77.0.1:%d/spore.efi", m.port)}, words)
	require.Zero(t, nics[0].BootIndex, "the plan stays as it is")
	require.Equal(t, 128, m.memory())
	require.NoError(t, os.Truncate(filepath.Join(m.folder, "root.squashfs"), 300<<20))
	require.Equal(t, 428, m.memory(), "what is downloaded stays in memory")
	require.NoError(t, os.WriteFile(filepath.Join(m.folder, "root.squashfs"), []byte("0123456789"), 0o600))
	require.Zero(t, medium{kind: mediumDisk, folder: m.folder}.memory())

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/root.squashfs", m.port), nil)
	require.NoError(t, err)
	request.Header.Set("Range", "bytes=4-")
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, "456789", string(body), "a download that broke off goes on")
}
