package top

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// stat is a line of /proc/PID/stat of a process that used so many ticks and has so many pages.
func stat(pid int, name, state string, used, started, pages int) string {
	return fmt.Sprintf("%d (%s) %s 1 1 1 0 -1 4194560 100 0 0 0 %d 5 0 0 20 0 3 0 %d 1000000 %d 18446744073709551615 1 1 0\n",
		pid, name, state, used-5, started, pages)
}

func put(t testing.TB, root paths.Root, files map[string]string) {
	t.Helper()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(root.At(name)), 0o755))
		require.NoError(t, os.WriteFile(root.At(name), []byte(text), 0o644))
	}
}

// first is a machine, and second what changes on it in two seconds.
var first = map[string]string{
	"/etc/passwd":                              "root:x:0:0::/root:/bin/sh\nkafka:x:900:900::/:/bin/false\n",
	"/proc/stat":                               "cpu  100 20 30 1000 50 3 7 40 0 0\ncpu0 50 10 15 500 25 1 3 20 0 0\ncpu1 50 10 15 500 25 2 4 20 0 0\nintr 1 2 3\nprocs_running 2\nprocs_blocked 1\n",
	"/proc/meminfo":                            "MemTotal:        2048 kB\nMemFree: 1 kB\nMemAvailable:    1024 kB\nCached:   512 kB\nDirty:   4 kB\nSwapTotal:   100 kB\nSwapFree:  60 kB\n",
	"/proc/loadavg":                            "0.50 1.25 2.00 1/100 4711\n",
	"/proc/uptime":                             "3600.25 7000.00\n",
	"/proc/diskstats":                          " 254 0 vda 10 0 200 5 20 0 400 9 0 100 14 0 0 0 0 0 0\n 254 1 vda1 10 0 200 5 20 0 400 9 0 100 14\n 7 0 loop0 1 0 1 1 1 1 1 1 1 1 1\n",
	"/proc/net/dev":                            "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop\n    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n  eth0: 1000 10 0 0 0 0 0 0 500 5 0 0 0 0 0 0\n",
	"/proc/pressure/cpu":                       "some avg10=1.50 avg60=0.25 avg300=0.10 total=1\n",
	"/proc/pressure/memory":                    "some avg10=3.00 avg60=2.00 avg300=1.00 total=1\nfull avg10=0.50 avg60=0.40 avg300=0.00 total=1\n",
	"/proc/1/stat":                             stat(1, "systemd", "S", 100, 1, 100),
	"/proc/1/cgroup":                           "0::/init.scope\n",
	"/proc/77/stat":                            stat(77, "ja) va (x", "R", 1000, 50, 5000),
	"/proc/77/cgroup":                          "0::/system.slice/kafka.service\n",
	"/proc/88/stat":                            stat(88, "gone", "Z", 10, 60, 0),
	"/proc/88/cgroup":                          "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-1a.scope\n",
	"/sys/block/vda/device/id":                 "",
	"/sys/fs/cgroup/init.scope/cpu.stat":       "usage_usec 1000\nuser_usec 500\n",
	"/sys/fs/cgroup/init.scope/memory.current": "4096\n",
	"/sys/fs/cgroup/system.slice/kafka.service/cpu.stat":         "usage_usec 1000000\n",
	"/sys/fs/cgroup/system.slice/kafka.service/memory.current":   "1048576\n",
	"/sys/fs/cgroup/system.slice/kafka.service/inner.service/x":  "",
	"/sys/fs/cgroup/kubepods.slice/a.slice/b.scope/cpu.stat":     "usage_usec 0\n",
	"/sys/fs/cgroup/kubepods.slice/a.slice/b.scope/cpu.pressure": "",
}

var second = map[string]string{
	"/proc/stat":      "cpu  200 20 80 1150 100 3 7 90 0 0\ncpu0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\nprocs_running 3\nprocs_blocked 0\n",
	"/proc/diskstats": " 254 0 vda 14 0 2200 5 40 0 4400 9 0 1100 14 0 0 0 0 0 0\n 254 1 vda1 10 0 200 5 20 0 400 9 0 100 14\n",
	"/proc/net/dev":   "  eth0: 5000 10 0 2 0 0 0 0 1500 5 2 0 0 0 0 0\n  cali1: 900 1 0 0 0 0 0 0 900 1 0 0 0 0 0 0\n",
	"/proc/77/stat":   stat(77, "ja) va (x", "R", 1300, 50, 6000),
	"/proc/99/stat":   stat(99, "new", "D", 20, 4000, 10),
	"/proc/99/cgroup": "0::/\n",
	"/sys/fs/cgroup/system.slice/kafka.service/cpu.stat": "usage_usec 4000000\n",
}

// between is what a watcher says of the two.
func between(t *testing.T, w watcher) machine.Load {
	t.Helper()
	put(t, w.root, first)
	at := time.Unix(1000, 0)
	w.now = func() time.Time { return at }
	w.users = parseUsers(w.read("/etc/passwd", maxFile))
	old, err := w.sample()
	require.NoError(t, err)
	put(t, w.root, second)
	at = time.Unix(1002, 0)
	now, err := w.sample()
	require.NoError(t, err)
	return w.load(now, old)
}

func TestTheLoadIsWhatChangedInTheInterval(t *testing.T) {
	l := between(t, watcher{root: paths.Root(t.TempDir()), rows: 40})
	require.EqualValues(t, 1002000, l.At)
	require.Equal(t, 2.0, l.Seconds)
	require.Equal(t, 3600.25, l.Uptime)
	require.Equal(t, machine.CPU{Processors: 2, User: 25, System: 12.5, Idle: 37.5, Wait: 12.5, Steal: 12.5}, l.CPU)
	require.Equal(t, [3]float64{0.5, 1.25, 2}, l.Average)
	require.Equal(t, machine.Memory{Total: 2 << 20, Available: 1 << 20, Cached: 512 << 10, Dirty: 4 << 10, Swap: 100 << 10, SwapFree: 60 << 10}, l.Memory)
	require.Equal(t, map[string]machine.Pressure{"cpu": {Some10: 1.5, Some60: 0.25}, "memory": {Some10: 3, Some60: 2, Full10: 0.5, Full60: 0.4}}, l.Pressure)
	require.Equal(t, []machine.DiskRate{{Name: "vda", Read: 512000, Written: 1024000, Reads: 2, Writes: 10, Busy: 50}}, l.Disks, "no partition and no loop")
	require.Equal(t, []machine.LinkRate{{Name: "eth0", Received: 2000, Sent: 500, Lost: 2}}, l.Network, "what is new has no rate yet")
	require.Equal(t, []machine.UnitLoad{{Name: "kafka.service", CPU: 150, Memory: 1 << 20}, {Name: "init.scope", Memory: 4096}, {Name: "b.scope"}}, l.Units)
	require.Equal(t, 4, l.Tasks)
	require.Equal(t, 3, l.Running)
	require.Equal(t, 1, l.Zombies)
	me := watcher{root: paths.Root("/"), users: map[uint32]string{0: "root", 900: "kafka"}}.owner("/proc/self")
	page := int64(os.Getpagesize())
	require.Equal(t, []machine.Process{
		{PID: 77, Unit: "kafka.service", User: me, CPU: 150, Memory: 6000 * page, State: "R", Threads: 3, Name: "ja) va (x"},
		{PID: 99, User: me, CPU: 10, Memory: 10 * page, State: "D", Threads: 3, Name: "new"},
		{PID: 1, Unit: "init.scope", User: me, Memory: 100 * page, State: "S", Threads: 3, Name: "systemd"},
		{PID: 88, Unit: "cri-containerd-1a.scope", User: me, State: "Z", Threads: 3, Name: "gone"},
	}, l.Processes)
}

func TestASummaryHasNeitherProcessesNorUnits(t *testing.T) {
	l := between(t, watcher{root: paths.Root(t.TempDir()), rows: 40, summary: true})
	require.Empty(t, l.Processes)
	require.Empty(t, l.Units)
	require.Equal(t, 4, l.Tasks)
	require.Equal(t, 25.0, l.CPU.User)
}

func TestOnlyAsManyRowsAsAskedFor(t *testing.T) {
	l := between(t, watcher{root: paths.Root(t.TempDir()), rows: 1})
	require.Len(t, l.Processes, 1)
	require.Len(t, l.Units, 1)
	require.Equal(t, 77, l.Processes[0].PID)
}

func TestAMachineWithoutProcSaysSo(t *testing.T) {
	_, err := watcher{root: paths.Root(t.TempDir()), now: time.Now}.sample()
	require.ErrorContains(t, err, "/proc/stat cannot be read")
}

func TestEachIntervalIsAPartOfTheAnswer(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	put(t, m.Root, first)
	order := nodeapi.Order{Arguments: map[string]string{"seconds": "1", "count": "2", "rows": "5"}}
	call, err := json.Marshal(verbs.Call{Verb: "top", Order: order, Caller: "anna", Roles: []nodeapi.Role{nodeapi.Reader}})
	require.NoError(t, err)
	in, stay := io.Pipe()
	defer stay.Close()
	go func() { _, _ = stay.Write(append(call, '\n')) }()
	var out strings.Builder
	require.NoError(t, verbs.Serve(t.Context(), m, nodeapi.Looks, map[string]verbs.Handler{"top": Show}, in, &out))
	parts := 0
	done, err := nodeapi.ReadEvents(strings.NewReader(out.String()), func(e nodeapi.Event) error {
		parts++
		var l machine.Load
		return json.Unmarshal(e.Result, &l)
	})
	require.NoError(t, err)
	require.Equal(t, 2, parts)
	require.Equal(t, "looked 2 times at 1 seconds", done)
}

func TestTheUnitOfAProcess(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/kafka.service\n":                          "kafka.service",
		"0::/system.slice/containerd.service/inner.scope\n":         "containerd.service",
		"12:cpu:/x.service\n1:name=systemd:/y.service\n0::/z.scope": "z.scope",
		"0::/system.slice\n":                                        "system.slice",
		"0::/a.slice/a-b.slice/pod1\n":                              "a-b.slice",
		"0::/\n":                                                    "",
		"":                                                          "",
		"1:cpu:/x.service\n":                                        "",
	} {
		require.Equal(t, want, unitOf(text), text)
	}
}

func TestAProcessThatCannotBeReadIsLeftOut(t *testing.T) {
	for _, text := range []string{"", "1", "1 (a", "1 a) S", "1 (a) S 1 2", ")(", stat(1, "a", "toolong", 10, 1, 1)} {
		_, ok := parseProcess(text)
		require.False(t, ok, text)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range first {
		f.Add(text)
	}
	f.Add("cpu 18446744073709551615 18446744073709551615 1 1 1 1 1 1")
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := parseProcess(text); ok {
			require.GreaterOrEqual(t, p.pages, int64(0))
			require.GreaterOrEqual(t, p.threads, 0)
		}
		unitOf(text)
		c, _ := parseStat(text)
		l := machine.Load{CPU: c.since(cpuTimes{}), Memory: parseMemory(text), Average: parseAverage(text)}
		l.Pressure = map[string]machine.Pressure{}
		l.Pressure["cpu"], _ = parsePressure(text)
		for name, d := range parseDisks(text) {
			l.Disks = append(l.Disks, d.since(name, diskCounts{}, 1))
		}
		for name, n := range parseLinks(text) {
			l.Network = append(l.Network, n.since(name, linkCounts{}, 1))
		}
		parseUsage(text)
		parseUsers(text)
		_, err := json.Marshal(l) // No number is beyond JSON.
		require.NoError(t, err)
		require.LessOrEqual(t, l.CPU.User+l.CPU.System+l.CPU.Idle+l.CPU.Wait+l.CPU.Steal, 100.001)
	})
}
