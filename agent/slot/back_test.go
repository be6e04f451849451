package slot

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/storage/gpt"
	"spore/wire/update"
)

func TestTheWayBackToAnotherRootIsGivenUpByWordAlone(t *testing.T) {
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	_, err := both.push(t, m, 1, nil)
	require.NoError(t, err)
	m, _ = become(t, disk, m, oldSystem, both)
	next := makeSystem("next", "").withRoot(newRoot, "")
	disk.ops = nil
	_, err = next.push(t, m, 2, nil)
	require.ErrorContains(t, err, "the node would lose its way back to the root "+rootHash[:16]+"…, which ran before: say --give-up-way-back")
	require.Empty(t, disk.ops)
	got, err := both.push(t, m, 3, nil)
	require.NoError(t, err)
	require.True(t, got.Unchanged)
	require.Len(t, entriesOf(t, disk), 2, "what runs, pushed again, leaves it")
	r, err := ReadRecord(m.Record)
	require.NoError(t, err)
	require.Equal(t, rootHash, r.PreviousRoot)
	p := next.pusher(t, 4, nil)
	p.wish.GiveUp = true
	_, err = p.run(t, m)
	require.NoError(t, err)
	m, _ = become(t, disk, m, both, next)
	_, err = makeSystem("one more", "").withRoot(newRoot, "").push(t, m, 5, nil)
	require.NoError(t, err, "the way back is to another configuration of the same root")
}

func TestANodeGoesBackToTheSystemBefore(t *testing.T) {
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	_, err := Back(*m, Wish{})
	require.ErrorContains(t, err, "there is no system before this one on the ESP")
	_, err = both.push(t, m, 4, nil)
	require.NoError(t, err)
	_, err = Back(*m, Wish{})
	require.ErrorContains(t, err, "the next start takes a newer system, spore_1000000000001_")
	onTrial := machineOf(t, disk, both)
	_, e := boots(t, disk, both)
	_, err = Back(*onTrial, Wish{})
	require.ErrorContains(t, err, "is on trial: the node goes back by itself")
	m, _ = become(t, disk, m, oldSystem, both)

	disk.ops = nil
	got, err := Back(*m, Wish{DryRun: true})
	require.NoError(t, err)
	want := Before{Serial: 4, ClusterHash: oldSystem.hash, Entry: oldSystem.entryFile(), Change: &update.Change{Root: true, UKI: true}}
	require.Equal(t, want, got)
	require.Empty(t, disk.ops)
	before, files := disk.clone(), []kept(nil)
	disk.each = func() { files = append(files, keep(t, m)) }
	got, err = Back(*m, Wish{By: "anna"})
	require.NoError(t, err)
	require.Equal(t, want, got)
	disk.each = nil
	s, started := boots(t, disk, oldSystem, both)
	require.Equal(t, rootHash, s.root.hash)
	require.Equal(t, oldSystem.entryFile(), started.File())
	require.Contains(t, entriesOf(t, disk), e.Stem+"+0.efi")
	r, err := ReadRecord(m.Record)
	require.NoError(t, err)
	require.Equal(t, "went back to this configuration: taken back by anna", InfoOf(r, rootHash, oldSystem.hash, "later", false).Problem)

	rng := rand.New(rand.NewPCG(7, 8))
	for n := range disk.ops {
		after := disk.cut(before, n+1, rng)
		s, _ := boots(t, after, oldSystem, both)
		if s.root.hash == rootHash {
			continue
		}
		again := machineOf(t, after, both)
		files[n].restore(t, again, both, rng)
		_, err := Back(*again, Wish{By: "anna"})
		require.NoError(t, err)
		s, _ = boots(t, after, oldSystem, both)
		require.Equal(t, rootHash, s.root.hash)
	}

	// The root that was given up is still there, and not sent again.
	back := machineOf(t, disk, oldSystem)
	back.Record = m.Record
	p := both.pusher(t, 5, nil)
	_, err = p.run(t, back)
	require.NoError(t, err)
	require.NotContains(t, p.sent, encoded(newRoot.index))
	boots(t, disk, both)
}

// A configuration that was in effect without a restart is not what the machine was started with, and the update replaces
// it: the way back leads to the settings before both.
func TestTheWayBackLeadsToWhatTheMachineWasStartedWith(t *testing.T) {
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	settings := makeSystem("other settings", "")
	_, err := settings.push(t, m, 1, nil)
	require.NoError(t, err)
	r, err := ReadRecord(m.Record)
	require.NoError(t, err)
	r.Live = true
	require.NoError(t, r.Write(m.Record))
	boots(t, disk, oldSystem, settings)

	other := makeSystem("other settings", "").withRoot(newRoot, "")
	_, err = other.push(t, m, 2, nil)
	require.NoError(t, err)
	m, _ = become(t, disk, m, oldSystem, settings, other)
	require.Equal(t, newRoot.hash, m.Boot.RootHash)
	_, err = Back(*m, Wish{})
	require.NoError(t, err)
	s, _ := boots(t, disk, oldSystem, settings, other)
	require.Equal(t, oldSystem.hash, s.hash)
	require.Equal(t, rootHash, s.root.hash)
}

func TestANodeDoesNotGoBackToWhatIsNotThere(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*testing.T, *medium, *Machine)
		want   string
	}{
		"its root is overwritten": {func(t *testing.T, d *medium, m *Machine) {
			require.NoError(t, setGUIDs(window{d, 0, diskSize, false}, map[int]gpt.GUID{2: {1, 2, 3}}))
		}, "is not on the disk any more (root "},
		"its cluster part is overwritten": {func(t *testing.T, d *medium, m *Machine) {
			require.NoError(t, setGUIDs(window{d, 0, diskSize, false}, map[int]gpt.GUID{4: {1, 2, 3}}))
		}, "is not on the disk any more"},
		"it is marked as bad": {func(t *testing.T, d *medium, m *Machine) { rename(t, d, Entry{Counted: true, Done: 3}) }, "there is no system before this one"},
		"its entry is gone": {func(t *testing.T, d *medium, m *Machine) {
			require.NoError(t, editESP(t, d).Remove(Dir, oldSystem.entryFile()))
		}, "there is no system before this one"},
		"from the network": {func(t *testing.T, d *medium, m *Machine) { m.Boot.NetworkURL = "http://x/" }, "it starts what that server has"},
		"from a disc":      {func(t *testing.T, d *medium, m *Machine) { m.Boot.BootDisk.Optical = true }, "not started from a disk of its own"},
		"by a BIOS":        {func(t *testing.T, d *medium, m *Machine) { m.Boot.EFI = false }, "no other entry to start"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := newDisk(t, oldSystem)
			m := machineOf(t, disk, oldSystem)
			_, err := both.push(t, m, 4, nil)
			require.NoError(t, err)
			m, _ = become(t, disk, m, oldSystem, both)
			tt.change(t, disk, m)
			disk.ops = nil
			_, err = Back(*m, Wish{})
			var r Refusal
			require.ErrorAs(t, err, &r)
			require.ErrorContains(t, err, tt.want)
			require.Empty(t, disk.ops)
		})
	}
}
