//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/storage/fat"
	"spore/test/chance"
	"spore/test/faults"
	"spore/test/powercut"
)

// Rows of a push of configuration, of the start on trial after it, and of the way back.

const (
	// stagedDisk is the disk of a machine that has taken a configuration and was not started with it yet.
	stagedDisk = "a configuration that is staged"
	// brokenAfter is how much of a push goes through before its line breaks, in bytes: the head is there, and the node
	// has said what it lacks, which is a few pieces alone.
	brokenAfter = 12 << 10
	// pushBound is the longest that a push may take that nothing stops, or that tries again for as long as it does.
	pushBound = 4 * time.Minute
)

func pushRows() []faultRow {
	stage := func(happens, part string, want faults.State) faultRow {
		return unit(faults.Push, happens, want, "./agent/slot", part)
	}
	return []faultRow{
		stage("power cut at each write and each flush", "^TestAPowerCutAtAnyWriteLeavesWhatRanOrWhatIsPushed$/^a_first_push$", faults.Either),
		stage("the same where another configuration is staged", "^TestAPowerCutAtAnyWriteLeavesWhatRanOrWhatIsPushed$/^where_another_one_is_staged$", faults.Either),
		stage("the same where only the backup of the partition table is sound", "^TestAPowerCutAtAnyWriteLeavesWhatRanOrWhatIsPushed$/^where_a_cut", faults.Either),
		stage("the disk keeps something else than what is written", "^TestADiskThatKeepsSomethingElseIsFoundOut$", faults.Before),
		stage("a head with flipped bits, another key, a UKI of something else", "^(TestWhatTheKeyDidNotSignIsNoUpdate|TestAnUpdateThatWouldNotStartIsRefused)$", faults.Refused),
		stage("an older configuration, another cluster, another build, another signer, a full ESP", "^TestWhatIsRefusedIsNotWritten$", faults.Refused),
		stage("the state was put back to an older copy", "^TestARecordThatWasPutBackLetsNothingOlderIn$", faults.Refused),
		unit(faults.Push, "power cut between the record and the TPM's counter", faults.New, "./agent/nvcounter", "^TestACutBetweenTheRecordAndTheCounter$"),
		unit(faults.Push, "power cut at each write of the ESP's tables and directories", faults.FileWhole, "./storage/fat", "^TestAfterAPowerCutEachFileIsOldOrNew$"),
		unit(faults.Update, "power cut at each write and each flush while a new boot loader is tried or put in its place", faults.Whole, "./agent/bootloader", "^TestAPowerCutAtAnyWriteLeavesAMachineThatStarts$"),
		unit(faults.Update, "power cut at each write that replaces the boot loader on the ESP", faults.FileWhole, "./storage/fat", "^TestAfterAPowerCutAReplacedFileHasOneContentWhole$"),
		unit(faults.Update, "the disk does not keep the new boot loader", faults.Before, "./agent/bootloader", "^TestADiskThatDoesNotTakeTheNewLoaderKeepsTheOldOne$"),
		ownTest(faults.Update, "the new boot loader ends at once", faults.Before, "TestANodeTakesAnUpdateByItself", TestANodeTakesAnUpdateByItself),
		{Doing: faults.Push, Happens: "the line breaks in the middle", Want: faults.Before, CPU: aPush, Shares: running, Run: lineBreaks(false)},
		{Doing: faults.Push, Happens: "the operator's cable is pulled out in the middle", Want: faults.Before, CPU: aPush, Shares: running, Run: lineBreaks(true)},
		{Doing: faults.Push, Happens: "the operator's program is killed in the middle", Want: faults.Before, CPU: aPush, Shares: running, Run: operatorKilled},
		{Doing: faults.Push, Happens: "the kernel kills the node's API in the middle", Want: faults.Before, CPU: aPush, Shares: running, Run: apiKilled},
		{Doing: faults.Push, Happens: "the kernel kills the program that writes it", Want: faults.New, CPU: aPush, Shares: running, Run: stageKilled},
		{Doing: faults.Push, Happens: "two operators at once", Want: faults.New, CPU: aPush, Shares: running, Run: twoAtOnce},
		{Doing: faults.Push, Happens: "a role cannot start with it, and the node takes it at once", Want: faults.Before, CPU: aPush, Shares: running, Run: badAtOnce},
		{Doing: faults.Push, Happens: "power cut at a write of the cluster part, the tables or the ESP", Want: faults.Either, CPU: aBoot + 5*time.Second, Shares: stagedDisk, Run: cutInAPush},
		{Doing: faults.Push, Happens: "the disk cannot write in the free slot", Want: faults.Before, CPU: aBoot + 5*time.Second, Run: slotCannotBeWritten},
		{Doing: faults.Push, Happens: "the ESP is full", Want: faults.Refused, CPU: aBoot + 5*time.Second, Run: fullESP},
	}
}

// lineBreaks has the operator's line break in the middle of a push.
func lineBreaks(hold bool) func(*testing.T, *faultLab) faults.Outcome {
	return func(t *testing.T, l *faultLab) faults.Outcome {
		s := l.theRunning(t)
		ctx, cancel := context.WithTimeout(t.Context(), pushBound)
		defer cancel()
		name := map[bool]string{false: "broken-line", true: "silent-line"}[hold]
		_, err := s.push(ctx, withName(t, name), line(t, s.api, brokenAfter, hold, func() { s.began = time.Now() }))
		require.Error(t, err)
		return s.asBefore(name)
	}
}

// asBefore makes sure that nothing of a push is in effect, and that the next one is taken.
func (s *subject) asBefore(name string) faults.Outcome {
	s.t.Helper()
	o := s.again()
	require.Equal(s.t, "NXDOMAIN", s.name(name))
	s.pushes(name + "-again")
	o.After = faults.Before
	return o
}

// pushes makes sure that a good configuration is taken.
func (s *subject) pushes(name string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), pushBound)
	defer cancel()
	text, err := s.push(ctx, withName(s.t, name), s.api)
	require.NoError(s.t, err)
	require.Contains(s.t, text, "edge-01 has it in effect")
	require.Equal(s.t, "NOERROR", s.name(name))
}

func operatorKilled(t *testing.T, l *faultLab) faults.Outcome {
	s := l.theRunning(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := s.push(ctx, withName(t, "killed"), line(t, s.api, brokenAfter, false, func() { s.began = time.Now(); cancel() }))
	require.ErrorContains(t, err, "killed")
	return s.asBefore("killed")
}

func apiKilled(t *testing.T, l *faultLab) faults.Outcome {
	s := l.theRunning(t)
	ctx, cancel := context.WithTimeout(t.Context(), pushBound)
	defer cancel()
	kill := func() {
		s.began = time.Now()
		s.sh("systemctl kill -s KILL spore-api.service")
	}
	_, err := s.push(ctx, withName(t, "no-api"), line(t, s.api, brokenAfter, true, kill))
	require.Error(t, err)
	require.Equal(t, "up", s.sh("timeout 60 sh -c 'until systemctl -q is-active spore-api.service; do sleep 0.2; done' && echo up"))
	return s.asBefore("no-api")
}

// stageKilled kills the unit that writes to the disk as soon as it runs. The push is still in the spool, and taken.
func stageKilled(t *testing.T, l *faultLab) faults.Outcome {
	s := l.theRunning(t)
	require.NoError(t, s.Type("(until [ $(systemctl is-active spore-stage.service) = activating ]; do sleep 0.05; done; systemctl kill -s KILL spore-stage.service) &\r"))
	s.awaitShell()
	ctx, cancel := context.WithTimeout(t.Context(), pushBound)
	defer cancel()
	began := time.Now()
	text, err := s.push(ctx, withName(t, "stage-killed"), s.api)
	require.NoError(t, err)
	require.Contains(t, text, "edge-01 has it in effect")
	require.Equal(t, "NOERROR", s.name("stage-killed"))
	require.Contains(t, s.sh("journalctl -q -b --no-pager -u spore-stage.service | grep -c 'status=9/KILL'"), "1")
	return faults.Outcome{After: faults.New, Took: time.Since(began), Lost: s.serves(true)}
}

// twoAtOnce has two operators push different configurations, from two copies of the folder of keys, which then count
// alike.
func twoAtOnce(t *testing.T, l *faultLab) faults.Outcome {
	s := l.theRunning(t)
	other := *s
	other.pki = filepath.Join(t.TempDir(), "keys.pki")
	require.NoError(t, os.CopyFS(other.pki, os.DirFS(s.pki)))
	ctx, cancel := context.WithTimeout(t.Context(), pushBound)
	defer cancel()
	configs := []string{withName(t, "first-of-two"), withName(t, "second-of-two")}
	texts, errs := make([]string, 2), make([]error, 2)
	var both sync.WaitGroup
	for i, who := range []*subject{s, &other} {
		both.Go(func() { texts[i], errs[i] = who.push(ctx, configs[i], s.api) })
	}
	both.Wait()
	s.began = time.Now()
	require.True(t, (errs[0] == nil) != (errs[1] == nil), "one is taken, the other is told why not: %v, %v", errs[0], errs[1])
	taken, refused := "first-of-two", "second-of-two"
	if errs[0] != nil {
		taken, refused = refused, taken
		texts[0], texts[1] = texts[1], texts[0]
	}
	require.Regexp(t, `too many ask this at once; come again|is older`, texts[1])
	o := s.again()
	require.Equal(t, "NOERROR", s.name(taken))
	require.Equal(t, "NXDOMAIN", s.name(refused))
	o.After, o.Note = faults.New, "the other is refused, and told why"
	return o
}

// badConfig is a configuration with which the broker cannot start: the node's bundle has no such password.
var badConfig = [][3]string{
	{"services/mqtt.yaml", "{secretRef: mqtt-password-operator}", "{secretRef: mqtt-password-nobody}"},
	{"cluster.yaml", "domain: plant.example\n", "domain: plant.example\n\ntrialMinutes: 1\n"},
}

// flapping is a configuration with which the broker ends as soon as it is started, again and again: it may not
// listen there.
var flapping = [][3]string{
	{"services/mqtt.yaml", "port: 8883\n", "port: 883\n"},
	{"cluster.yaml", "domain: plant.example\n", "domain: plant.example\n\ntrialMinutes: 1\n"},
}

func badAtOnce(t *testing.T, l *faultLab) faults.Outcome {
	s := l.theRunning(t)
	ctx, cancel := context.WithTimeout(t.Context(), pushBound)
	defer cancel()
	text, err := s.push(ctx, withName(t, "flapping", flapping...), s.api)
	require.Error(t, err)
	require.Contains(t, text, "mosquitto.service")
	s.began = time.Now()
	return s.asBefore("flapping")
}

// stagedSystem is what a push without a restart has left.
type stagedSystem struct {
	// disk has it, vars the firmware's variables, log is what was written to the disk since it was l.installed.
	disk, vars string
	log        *powercut.Log
	// first and last are the writes of the push.
	first, last int
}

// theStaged makes it once.
func (l *faultLab) theStaged(t *testing.T) *stagedSystem {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.staged != nil {
		return l.staged
	}
	st := &stagedSystem{disk: filepath.Join(l.dir, "staged.img")}
	require.NoError(t, vm.Copy(l.installed, st.disk, 0))
	d := bootDisk(st.disk)
	d.WriteLog = filepath.Join(l.dir, "staged.log")
	s := l.start(t, l.machine(t, "staged", d))
	s.whole(true)
	s.pushes("staged")
	time.Sleep(6 * time.Second) // ext4 commits every five: the node's record is on the disk.
	s.off()
	st.vars = filepath.Join(l.dir, "staged.vars.fd")
	require.NoError(t, vm.Copy(s.Config.VarsPath(), st.vars, 0))
	// The log is read long after this row has ended.
	data, err := os.ReadFile(d.WriteLog)
	require.NoError(t, err)
	st.log, err = powercut.Read(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	st.first, st.last = writesOfPush(t, st.log, st.disk, "cluster-b")
	l.staged = st
	return st
}

// writesOfPush finds the first write of a push, to a free slot, and the last one, to the ESP.
func writesOfPush(t *testing.T, log *powercut.Log, disk, free string) (first, last int) {
	t.Helper()
	slot, err := vm.FindPartition(disk, free)
	require.NoError(t, err)
	esp, err := vm.FindPartition(disk, "esp")
	require.NoError(t, err)
	in := func(p vm.Partition, e powercut.Entry) bool { return e.Offset >= p.Start && e.Offset < p.Start+p.Size }
	n := 0
	for _, e := range log.Entries {
		if e.Length == 0 || e.Discard {
			continue
		}
		n++
		if first == 0 && in(slot, e) {
			first = n
		}
		if first > 0 && in(esp, e) {
			last = n
		}
	}
	require.Positive(t, first)
	require.Greater(t, last, first)
	return first, last
}

func cutInAPush(t *testing.T, l *faultLab) faults.Outcome {
	st := l.theStaged(t)
	rng := rand.New(rand.NewPCG(chance.Seed(t), 21))
	cut, err := st.log.Cut(st.first+rng.IntN(st.last-st.first+1), rng.Uint64())
	require.NoError(t, err)
	t.Logf("the push is in the writes %d to %d: %s", st.first, st.last, cut)
	path := l.copied(t)
	replay(t, st.log, cut, path)
	c := l.machine(t, "cut-push", bootDisk(path))
	c.Reboots = true
	s := l.start(t, c)
	o := s.eitherSystem(t, "staged")
	s.pki = l.laterKeys(t)
	s.pushes("after-cut")
	o.After = faults.Either
	return s.end(o)
}

// laterKeys is a copy of the operator's folder that has counted further than the pushes before.
func (l *faultLab) laterKeys(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keys.pki")
	require.NoError(t, os.CopyFS(dir, os.DirFS(suite.dir)))
	for range 2 {
		out := filepath.Join(t.TempDir(), "update")
		cmd := (&subject{guest: &guest{t: t}, pki: dir}).pushCommand(t.Context(), withName(t, "counted"), "127.0.0.1:1", "--output", out)
		text, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", text)
	}
	return dir
}

// kept waits until the start on trial is judged good.
func (s *subject) kept() {
	s.t.Helper()
	s.mark = 0
	s.awaitLine(`spore-agent: the configuration is good`)
}

func slotCannotBeWritten(t *testing.T, l *faultLab) faults.Outcome {
	p, err := vm.FindPartition(l.installed, "cluster-b")
	require.NoError(t, err)
	d := l.fresh(t)
	d.Errors = []vm.DiskError{{Write: true, At: p.Start + 4096}}
	s := l.start(t, l.machine(t, "bad-slot", d))
	s.whole(true)
	ctx, cancel := context.WithTimeout(t.Context(), pushBound)
	defer cancel()
	text, err := s.push(ctx, withName(t, "bad-slot"), s.api)
	require.Error(t, err)
	require.Contains(t, text, "input/output error")
	s.began = time.Now()
	o := s.again()
	require.Equal(t, "NXDOMAIN", s.name("bad-slot"))
	o.After = faults.Before
	return s.end(o)
}

// fullESP fills the ESP but for 1 MiB.
func fullESP(t *testing.T, l *faultLab) faults.Outcome {
	disk := l.copied(t)
	fillESP(t, disk, 1<<20)
	s := l.start(t, l.machine(t, "full-esp", bootDisk(disk)))
	s.whole(true)
	ctx, cancel := context.WithTimeout(t.Context(), pushBound)
	defer cancel()
	text, err := s.push(ctx, withName(t, "full-esp"), s.api)
	require.Error(t, err)
	require.Contains(t, text, "the ESP has room for")
	s.began = time.Now()
	o := s.again()
	require.Equal(t, "NXDOMAIN", s.name("full-esp"))
	o.After = faults.Refused
	return s.end(o)
}

// section is a part of a file as a device.
type section struct {
	*io.SectionReader
	f  *os.File
	at int64
}

func (s section) WriteAt(b []byte, off int64) (int, error) { return s.f.WriteAt(b, s.at+off) }
func (s section) Sync() error                              { return nil }

// letters never ends.
type letters struct{}

func (letters) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// fillESP makes a file on the ESP of a disk that leaves so many bytes free.
func fillESP(t *testing.T, disk string, free int64) {
	t.Helper()
	p, err := vm.FindPartition(disk, "esp")
	require.NoError(t, err)
	f, err := os.OpenFile(disk, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	e, err := fat.Edit(section{io.NewSectionReader(f, p.Start, p.Size), f, p.Start}, p.Size)
	require.NoError(t, err)
	size := e.Free() - free
	require.Positive(t, size)
	require.NoError(t, e.Create("/loader", "of somebody", size, io.LimitReader(letters{}, size), time.Unix(1_800_000_000, 0)))
}

// eitherSystem is the outcome of a machine that runs what ran before, or what was pushed and is kept: the latter alone
// has the DNS record.
func (s *subject) eitherSystem(t *testing.T, record string) faults.Outcome {
	t.Helper()
	o := s.whole(true)
	code := s.name(record)
	require.Contains(t, []string{"NOERROR", "NXDOMAIN"}, code)
	o.Note = map[string]string{"NOERROR": "runs what was pushed", "NXDOMAIN": "runs what ran before"}[code]
	if code == "NOERROR" {
		s.kept()
	}
	return o
}
