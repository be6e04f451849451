package trial

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/slot"
	"spore/cluster/facts"
	"spore/storage/fat"
	"spore/test/testpe"
)

var (
	trialRoot   = strings.Repeat("a1", 32)
	trialBefore = strings.Repeat("b0", 32)
	trialHash   = strings.Repeat("b1", 32)
)

// onTrial is a machine that was started with a pushed configuration, whose entry has a counter.
func onTrial(t *testing.T, file string) *node.Machine {
	t.Helper()
	m := node.New("spore-agent", paths.Root(t.TempDir()))
	m.Say = func(string) {}
	m.Boot = bootinfo.Info{RootHash: trialRoot, ClusterHash: trialHash, ESP: "/esp", EFI: true}
	entry := func(name, cluster string) fat.File {
		line := "roothash=" + trialRoot + " spore.clusterhash=" + cluster + " ro"
		uki := testpe.Program(testpe.Section{Name: ".cmdline", Data: []byte(line)})
		return fat.File{Path: slot.Dir + "/" + name, Size: int64(len(uki)), Content: bytes.NewReader(uki)}
	}
	img, err := fat.New(fat.Options{Size: 64 << 20, Files: []fat.File{entry("spore_0123456789ab.efi", trialBefore), entry(file, trialHash)}})
	require.NoError(t, err)
	data := make([]byte, img.Size())
	_, err = img.ReadAt(data, 0)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(m.Root.At("/esp"), data, 0o600))
	require.NoError(t, os.MkdirAll(m.Root.At("/proc/sys/kernel/random"), 0o755))
	require.NoError(t, os.WriteFile(m.Root.At(paths.BootID), []byte("this-boot\n"), 0o600))
	require.NoError(t, slot.Record{Serial: 3, RootHash: trialRoot, ClusterHash: trialHash, Previous: trialBefore, State: slot.Staged, BootID: "before"}.Write(m.Root.At(paths.Update)))
	return m
}

func entries(t *testing.T, m *node.Machine) []string {
	t.Helper()
	f, err := os.Open(m.Root.At("/esp"))
	require.NoError(t, err)
	defer f.Close()
	fsys, err := fat.Open(f, 64<<20)
	require.NoError(t, err)
	list, err := fsys.List(slot.Dir)
	require.NoError(t, err)
	var out []string
	for _, e := range list {
		out = append(out, e.Name)
	}
	return out
}

func record(t *testing.T, m *node.Machine) slot.Record {
	t.Helper()
	r, err := slot.ReadRecord(m.Root.At(paths.Update))
	require.NoError(t, err)
	return r
}

func TestWhatRanBeforeIsNotJudgedWhereTheLoaderCouldNotStartWhatItCounted(t *testing.T) {
	m := onTrial(t, "spore_1000000000001_0123456789cd+0-3.efi")
	said := ""
	m.Say = func(s string) { said += s }
	vars := m.Root.At(paths.EFIVars)
	require.NoError(t, os.MkdirAll(vars, 0o755))
	variable := func(name, text string) {
		data := []byte{6, 0, 0, 0}
		for _, b := range []byte(text + "\x00") {
			data = append(data, b, 0)
		}
		require.NoError(t, os.WriteFile(vars+"/"+name+"-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f", data, 0o600))
	}
	variable("LoaderBootCountPath", `\EFI\Linux\spore_1000000000001_0123456789cd+0-3.efi`)
	variable("LoaderEntrySelected", "spore_0123456789ab.efi")
	require.NoError(t, Judge(t.Context(), m))
	require.Contains(t, said, "what runs is not on trial")
	require.Equal(t, slot.Staged, record(t, m).State)
	variable("LoaderEntrySelected", "spore_1000000000001_0123456789cd.efi")
	require.ErrorContains(t, Judge(t.Context(), m), "it is not known which ESP", "that one is judged")
}

func TestAStartOnTrialIsCountedOnce(t *testing.T) {
	m := onTrial(t, "spore_1000000000001_0123456789cd+2-1.efi")
	require.True(t, noteStart(m))
	require.True(t, noteStart(m))
	r := record(t, m)
	require.Equal(t, slot.OnTrial, r.State)
	require.Equal(t, 1, r.Starts)
	require.Equal(t, "this-boot", r.BootID)

	m.Boot.ClusterHash = "other"
	require.False(t, noteStart(m), "the record is of another configuration")
	require.Equal(t, r, record(t, m))
}

func TestAStartThatIsGoodIsKeptAlsoWhereItsRecordIsDamaged(t *testing.T) {
	m := onTrial(t, "spore_1000000000001_0123456789cd+2-1.efi")
	require.NoError(t, recordKept(m))
	require.Equal(t, slot.Kept, record(t, m).State)

	var said []string
	m.Say = func(s string) { said = append(said, s) }
	require.NoError(t, os.WriteFile(m.Root.At(paths.Update), []byte("{'"), 0o600))
	require.False(t, noteStart(m))
	require.Equal(t, Settle, settle(m, &facts.Cluster{}))
	require.NoError(t, recordKept(m), "it is not judged again, until the unit has failed too often and restarts the machine")
	require.Len(t, said, 1)
	require.Contains(t, said[0], "is damaged")
	left, err := os.ReadFile(m.Root.At(paths.Update))
	require.NoError(t, err)
	require.Equal(t, "{'", string(left))
}

// What a restart in the trial costs: nothing when it is on purpose.
func TestATryIsGivenBackWhenTheMachineIsRestartedOnPurpose(t *testing.T) {
	for before, after := range map[string]string{
		"spore_1000000000001_0123456789cd+2-1.efi": "spore_1000000000001_0123456789cd+3.efi",
		"spore_1000000000001_0123456789cd+0-3.efi": "spore_1000000000001_0123456789cd+1-2.efi",
		"spore_1000000000001_0123456789cd.efi":     "spore_1000000000001_0123456789cd.efi",
	} {
		m := onTrial(t, before)
		require.NoError(t, giveBack(m))
		require.ElementsMatch(t, []string{"spore_0123456789ab.efi", after}, entries(t, m))
		require.Equal(t, slot.Staged, record(t, m).State)
	}
}

func TestABadEntryIsMarkedAndTheOneBeforeStays(t *testing.T) {
	m := onTrial(t, "spore_1000000000001_0123456789cd+2-1.efi")
	e, err := rename(context.Background(), m, slot.Entry.Bad)
	require.NoError(t, err)
	require.Equal(t, "spore_1000000000001_0123456789cd+0-3.efi", e.File())
	require.ElementsMatch(t, []string{"spore_0123456789ab.efi", "spore_1000000000001_0123456789cd+0-3.efi"}, entries(t, m))
}

func TestAnESPWithoutTheEntryThatRunsIsAnError(t *testing.T) {
	m := onTrial(t, "spore_1000000000001_0123456789cd+2-1.efi")
	m.Boot.ClusterHash = "b2"
	require.ErrorContains(t, giveBack(m), "no entry in /EFI/Linux starts what runs")
}

func TestANewSystemHasToLastLongerThanAConfiguration(t *testing.T) {
	m := onTrial(t, "spore_1000000000001_0123456789cd+2-1.efi")
	three := &facts.Cluster{TrialSettle: 3}
	require.Equal(t, Settle, settle(m, three))
	for name, change := range map[string]func(*slot.Record){
		"another root":   func(r *slot.Record) { r.PreviousRoot = "f0" },
		"another kernel": func(r *slot.Record) { r.NewKernel = true },
	} {
		r := record(t, m)
		before := r
		change(&r)
		require.NoError(t, r.Write(m.Root.At(paths.Update)))
		require.Equal(t, 3*time.Minute, settle(m, three), name)
		require.Equal(t, 10*time.Minute, settle(m, &facts.Cluster{}), name)
		require.NoError(t, before.Write(m.Root.At(paths.Update)))
	}
	require.NoError(t, os.Remove(m.Root.At(paths.Update)))
	require.Equal(t, Settle, settle(m, three), "the state partition is not there yet")
}

func TestTheClockOfTrialsBeganWithTheKernel(t *testing.T) {
	c := sinceBoot()
	before := c.Now()
	require.Positive(t, before)
	require.NoError(t, c.Sleep(context.Background(), 5*time.Millisecond))
	require.Greater(t, c.Now(), before)
}
