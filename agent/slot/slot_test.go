package slot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/state"
	"spore/pki/authenticode"
	"spore/storage/fat"
	"spore/storage/gpt"
	"spore/storage/pieces"
	"spore/test/faults"
	"spore/test/testpe"
	"spore/wire/update"
)

func TestAPushedConfigurationIsStartedNextAndWhatRunsStays(t *testing.T) {
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	m.Down = []string{"kafka.service"}
	got, err := newSystem.push(t, m, 7, nil)
	require.NoError(t, err)
	s, e := boots(t, disk, oldSystem, newSystem)
	require.Equal(t, newSystem.hash, s.hash)
	require.Equal(t, got.Entry, e.File())
	require.Regexp(t, `^spore_1000000000001_[0-9a-f]{12}\+3\.efi$`, got.Entry)
	require.Equal(t, oldSystem.uki, entriesOf(t, disk)[oldSystem.entryFile()])
	r, err := ReadRecord(m.Record)
	require.NoError(t, err)
	require.Equal(t, Record{
		Serial: 7, Issued: time.Unix(1_800_000_000, 0).UTC(), ClusterHash: newSystem.hash, RootHash: rootHash, Previous: oldSystem.hash, PreviousRoot: rootHash, Entry: e.Stem, State: Staged, BootID: "boot", Down: m.Down,
	}, r)
	require.Equal(t, newSystem.hash, InfoOf(r, rootHash, oldSystem.hash, "boot", false).Staged)
}

// The slots take turns, the newest entry is the one that is started, and there are never more than two.
func TestPushesFollowEachOther(t *testing.T) {
	disk, runs := newDisk(t, oldSystem), oldSystem
	m := machineOf(t, disk, runs)
	for i, text := range []string{"first", "second", "third", "fourth"} {
		next := makeSystem(text, "")
		got, err := next.push(t, m, uint64(i+1), nil)
		require.NoError(t, err)
		s, e := boots(t, disk, runs, next)
		require.Equal(t, next.hash, s.hash)
		require.Len(t, entriesOf(t, disk), 2)

		require.NoError(t, m.Rename(e, e.Good()))
		record := m.Record
		m = machineOf(t, disk, next)
		m.Record, runs = record, next
		r, err := ReadRecord(record)
		require.NoError(t, err)
		require.Equal(t, got.Entry, Entry{Stem: r.Entry, Counted: true, Left: Tries}.File())
		r.State = Kept
		require.NoError(t, r.Write(record))
	}
}

func TestAPushThatReplacesAStagedOne(t *testing.T) {
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	_, err := newSystem.push(t, m, 1, nil)
	require.NoError(t, err)
	other := makeSystem("another one", "")
	_, err = other.push(t, m, 2, nil)
	require.NoError(t, err)
	s, _ := boots(t, disk, oldSystem, newSystem, other)
	require.Equal(t, other.hash, s.hash)
	require.Len(t, entriesOf(t, disk), 2)

	got, err := oldSystem.push(t, m, 3, nil)
	require.NoError(t, err)
	require.True(t, got.Unchanged, "what runs is pushed: what was staged is taken back")
	s, _ = boots(t, disk, oldSystem, other)
	require.Equal(t, oldSystem.hash, s.hash)
	_, err = newSystem.push(t, m, 2, nil)
	require.ErrorContains(t, err, "is older (2) than the last one that this node took (3)")
}

func TestAPowerCutAtAnyWriteLeavesWhatRanOrWhatIsPushed(t *testing.T) {
	newDisk(t, oldSystem) // It is made once, for all of those at once.
	for name, prepare := range map[string]func(*testing.T, *medium, *Machine){
		"a first push": func(*testing.T, *medium, *Machine) {},
		"where another one is staged": func(t *testing.T, disk *medium, m *Machine) {
			_, err := makeSystem("another one", "").push(t, m, 1, nil)
			require.NoError(t, err)
		},
		"where a cut left the backup of the partition table alone": func(t *testing.T, disk *medium, m *Machine) {
			disk.put(make([]byte, 512), 512)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := newDisk(t, oldSystem)
			m := machineOf(t, before, oldSystem)
			prepare(t, before, m)
			record, err := os.ReadFile(m.Record)
			require.True(t, err == nil || errors.Is(err, os.ErrNotExist))
			started, _ := boots(t, before, oldSystem, newSystem, makeSystem("another one", ""))
			disk := before.clone()
			m = machineOf(t, disk, oldSystem)
			require.NoError(t, os.WriteFile(m.Record, orEmpty(record), 0o600))
			_, err = newSystem.push(t, m, 2, nil)
			require.NoError(t, err)
			rng := rand.New(rand.NewPCG(3, 4))
			var sawOld, sawNew bool
			for n := range disk.ops {
				for range 3 {
					after := disk.cut(before, n+1, rng)
					s, e := boots(t, after, oldSystem, newSystem, started)
					sawOld, sawNew = sawOld || s.hash == oldSystem.hash, sawNew || s.hash == newSystem.hash
					require.True(t, s.hash == newSystem.hash || s.hash == oldSystem.hash || s.hash == started.hash, "cut at %d starts %s", n, e.File())
					require.Equal(t, oldSystem.uki, entriesOf(t, after)[oldSystem.entryFile()])

					again := machineOf(t, after, oldSystem)
					require.NoError(t, os.WriteFile(again.Record, orEmpty(record), 0o600))
					_, err := newSystem.push(t, again, 2, nil)
					require.NoError(t, err, "cut at %d", n)
					s, _ = boots(t, after, oldSystem, newSystem)
					require.Equal(t, newSystem.hash, s.hash)
					require.Len(t, entriesOf(t, after), 2)
				}
			}
			require.True(t, sawOld && sawNew)
			faults.Tried(t, 3*len(disk.ops))
		})
	}
}

func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte("{}")
	}
	return b
}

func TestWhatIsRefusedIsNotWritten(t *testing.T) {
	signed := func(s, certificate string) system { return makeSystem(s, certificate) }
	for name, tt := range map[string]struct {
		change func(*Machine)
		head   func(*update.Head)
		system *system
		runs   *system
		disk   func(*testing.T, *medium)
		want   string
	}{
		"another cluster":                {head: func(h *update.Head) { h.Cluster = "11111111-2222-4333-8444-555555555555" }, want: "is of the cluster with the id 11111111"},
		"without the node":               {head: func(h *update.Head) { h.Nodes = []string{"edge-02"} }, want: "has no node edge-01"},
		"another system since the start": {change: func(m *Machine) { m.Boot.RootHash = strings.Repeat("b", 64) }, want: "has no partition with the root file system that runs"},
		"an older one":                   {head: func(h *update.Head) { h.Serial = 4 }, want: "is older (4) than the last one that this node took (5): push its folder again"},
		"from the network":               {change: func(m *Machine) { m.Boot.NetworkURL = "http://10.0.0.1/" }, want: "was started from the network (http://10.0.0.1/)"},
		"from a disc":                    {change: func(m *Machine) { m.Boot.BootDisk.Optical = true }, want: "was started from the disc"},
		"without a disk":                 {change: func(m *Machine) { m.Boot.BootDisk.Path = "" }, want: "not known which disk"},
		"by a BIOS":                      {change: func(m *Machine) { m.Boot.EFI = false }, want: "was not started by UEFI firmware"},
		"without an ESP":                 {change: func(m *Machine) { m.Boot.ESP = "" }, want: "was not started by UEFI firmware"},
		"without state": {
			change: func(m *Machine) { m.State = state.Info{Kind: state.Tmpfs, Warning: "no disk for state"} }, want: "would forget what was pushed to it: no disk for state",
		},
		"an entry that is counted": {disk: func(t *testing.T, d *medium) { rename(t, d, Entry{Counted: true, Left: 2, Done: 1}) }, want: "+2-1.efi, is on trial itself"},
		"an entry that is bad":     {disk: func(t *testing.T, d *medium) { rename(t, d, Entry{Counted: true, Done: 3}) }, want: "is marked as bad: it was started by hand"},
		"no entry of what runs":    {disk: func(t *testing.T, d *medium) { require.NoError(t, editESP(t, d).Remove(Dir, oldSystem.entryFile())) }, want: "no entry that starts what runs"},
		"no second slot":           {disk: func(t *testing.T, d *medium) { retype(t, d, 7) }, want: "has no second slot"},
		"a disk written anew":      {disk: func(t *testing.T, d *medium) { retype(t, d, 4) }, want: "was written anew since this machine was started"},
		"an ESP that is full": {disk: func(t *testing.T, d *medium) {
			e := editESP(t, d)
			n := e.Free() - 4<<20
			require.NoError(t, e.Create("/loader", "of somebody", n, bytes.NewReader(make([]byte, n)), machineOf(t, d, oldSystem).Now()))
		}, want: "the ESP has room for 4 MiB, and 5 are needed"},
		"unsigned with Secure Boot": {change: func(m *Machine) { m.SecureBoot = true }, want: "the UKI of the update is not signed: push with --secure-boot-key"},
		"revoked": {
			change: func(m *Machine) {
				hash, err := authenticode.HashOf(bytes.NewReader(newSystem.uki), int64(len(newSystem.uki)))
				require.NoError(t, err)
				m.SecureBoot, m.Keys.Forbidden.Programs = true, []authenticode.Hash{{1}, hash}
			},
			want: "would not start the UKI of the update: the firmware has it among those that it does not start (dbx)",
		},
		"signed by somebody else": {
			change: func(m *Machine) { m.SecureBoot = true }, system: ptr(signed("x", "somebody")), runs: ptr(signed("y", "the plant")),
			want: "signed by another certificate than the one that runs (\"CN=somebody\"",
		},
		"with the signature of another program": {
			change: func(m *Machine) { m.SecureBoot = true }, runs: ptr(signed("y", "the plant")), system: ptr(borrowed("x", signed("y", "the plant"))),
			want: "firmware would not start the UKI of the update: its signature does not hold: the program was changed",
		},
		"with another key for PCR 11":  {system: ptr(signed("x", "pcr other")), runs: ptr(signed("y", "pcr key")), want: "not by the same key"},
		"without a key for PCR 11":     {system: ptr(signed("x", "")), runs: ptr(signed("y", "pcr key")), want: "push with the same --pcr-key"},
		"force takes no other cluster": {head: func(h *update.Head) { h.Cluster, h.Force = "other", true }, want: "is of the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			runs, pushed := oldSystem, newSystem
			if tt.runs != nil {
				runs, pushed = *tt.runs, *tt.system
			}
			disk := newDisk(t, runs)
			m := machineOf(t, disk, runs)
			writeRecord(m, Record{Serial: 5, ClusterHash: runs.hash, Previous: "0", State: Kept})
			if tt.change != nil {
				tt.change(m)
			}
			if tt.disk != nil {
				tt.disk(t, disk)
				disk.ops = nil
			}
			_, err := pushed.push(t, m, 6, tt.head)
			var r Refusal
			require.ErrorAs(t, err, &r)
			require.ErrorContains(t, err, tt.want)
			require.Empty(t, disk.ops)
		})
	}
}

// borrowed is a system whose UKI has the signature of another one.
func borrowed(text string, from system) system {
	s := makeSystem(text, "")
	plain := len(s.uki)
	s.uki = append(s.uki, from.uki[plain:]...)
	row := 0x40 + 24 + 112 + 4*8
	copy(s.uki[row:row+8], from.uki[row:row+8])
	return s
}

// An older configuration is taken where the cluster's key says so in the update itself, and only if it was signed
// later: whoever kept a file that was forced once does not go back to it.
func TestForceIsForOneTime(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(1_800_000_000+seconds, 0).UTC() }
	for name, tt := range map[string]struct {
		last   Record
		serial uint64
		force  bool
		issued time.Time
		want   string
	}{
		"a newer one":                           {Record{Serial: 1, ClusterHash: "x", Issued: at(0)}, 2, false, at(5), ""},
		"a newer one of a clock that went back": {Record{Serial: 1, ClusterHash: "x", Issued: at(9)}, 2, false, at(5), ""},
		"the same again":                        {Record{Serial: 2, ClusterHash: newSystem.hash, RootHash: rootHash, Issued: at(5)}, 2, false, at(5), ""},
		"an older one":                          {Record{Serial: 9, ClusterHash: "x", Issued: at(0)}, 2, false, at(5), "is older (2) than the last one that this node took (9)"},
		"another one of the same serial":        {Record{Serial: 2, ClusterHash: "x", Issued: at(0)}, 2, false, at(5), "is older (2) than the last one that this node took (2)"},
		"an older one by force":                 {Record{Serial: 9, ClusterHash: "x", Issued: at(0)}, 2, true, at(5), ""},
		"the same serial by force":              {Record{Serial: 2, ClusterHash: "x", Issued: at(0)}, 2, true, at(5), ""},
		"by force where no time is known":       {Record{Serial: 9, ClusterHash: "x"}, 2, true, at(5), ""},
		"the forced one again, after a cut":     {Record{Serial: 9, ClusterHash: newSystem.hash, RootHash: rootHash, Issued: at(5)}, 2, true, at(5), ""},
		"a forced one that was kept":            {Record{Serial: 9, ClusterHash: "x", Issued: at(6)}, 2, true, at(5), "was signed with --force at 2027-01-15T08:00:05Z, and the last one"},
		"a forced one of the same moment":       {Record{Serial: 9, ClusterHash: "x", Issued: at(5)}, 2, true, at(5), "was signed with --force"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := newDisk(t, oldSystem)
			m := machineOf(t, disk, oldSystem)
			writeRecord(m, tt.last)
			_, err := newSystem.push(t, m, tt.serial, func(h *update.Head) { h.Force, h.Issued = tt.force, tt.issued })
			r, readErr := ReadRecord(m.Record)
			require.NoError(t, readErr)
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				require.Empty(t, disk.ops)
				require.Equal(t, tt.last, r)
				return
			}
			require.NoError(t, err)
			require.Equal(t, max(tt.serial, tt.last.Serial), r.Serial, "what is older than that is refused again")
			require.Equal(t, tt.issued, r.Issued)
		})
	}
}

func TestForceForWhatRunsDoesNotForgetTheSerial(t *testing.T) {
	m := machineOf(t, newDisk(t, oldSystem), oldSystem)
	writeRecord(m, Record{Serial: 9, ClusterHash: "x", State: Failed})
	got, err := oldSystem.push(t, m, 2, func(h *update.Head) { h.Force = true })
	require.NoError(t, err)
	require.True(t, got.Unchanged)
	r, err := ReadRecord(m.Record)
	require.NoError(t, err)
	require.EqualValues(t, 9, r.Serial)
	_, err = newSystem.push(t, m, 8, nil)
	require.ErrorContains(t, err, "is older (8)")
}

// Nobody knows what a node took whose record is damaged: it takes the operator's word, and no other push.
func TestADamagedRecordIsBegunAnewByTheOperatorsWord(t *testing.T) {
	whole, err := json.Marshal(Record{Serial: 9, ClusterHash: "x", State: Kept})
	require.NoError(t, err)
	flipped := bytes.Clone(whole)
	flipped[1] ^= 1
	damages := map[string][]byte{
		"a bit flipped": flipped, "cut short": whole[:len(whole)-1], "empty": {}, "zeros": make([]byte, len(whole)),
		"something behind it": append(bytes.Clone(whole), '{'), "far too long": bytes.Repeat([]byte(" "), maxRecord+1),
	}
	faults.Tried(t, len(damages))
	for name, content := range damages {
		t.Run(name, func(t *testing.T) {
			disk, tpm := newDisk(t, oldSystem), &memory{id: "a", count: 70}
			m := machineOf(t, disk, oldSystem)
			m.Counter = tpm
			require.NoError(t, os.WriteFile(m.Record, content, 0o600))
			var refused Refusal
			_, err := newSystem.push(t, m, 12, nil)
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, "this node's record of what was pushed to it last is damaged: ")
			require.ErrorContains(t, err, "push the newest folder again with --force")
			require.Empty(t, disk.ops)
			left, err := os.ReadFile(m.Record)
			require.NoError(t, err)
			require.Equal(t, content, left)

			_, err = newSystem.push(t, m, 12, func(h *update.Head) { h.Force, h.Cluster = true, "other" })
			require.ErrorContains(t, err, "is of the cluster")
			_, err = newSystem.push(t, m, 12, func(h *update.Head) { h.Force = true })
			require.NoError(t, err)
			r, err := ReadRecord(m.Record)
			require.NoError(t, err)
			require.EqualValues(t, 12, r.Serial)
			require.Equal(t, Staged, r.State)
			_, err = newSystem.push(t, m, 11, nil)
			require.ErrorContains(t, err, "is older (11)", "the new record counts")

			// So does the TPM, which is bound to the new record.
			_, err = makeSystem("after that", "").push(t, m, 14, nil)
			require.NoError(t, err)
			writeRecord(m, r)
			_, err = newSystem.push(t, m, 13, nil)
			require.ErrorContains(t, err, "this node's TPM has counted (14)")
		})
	}
}

// What runs is known by its record no more, and stays.
func TestADamagedRecordOfWhatRuns(t *testing.T) {
	m := machineOf(t, newDisk(t, oldSystem), oldSystem)
	require.NoError(t, os.WriteFile(m.Record, []byte("{"), 0o600))
	_, err := oldSystem.push(t, m, 3, nil)
	require.ErrorContains(t, err, "is damaged")
	_, err = Back(*m, Wish{})
	require.ErrorContains(t, err, "push its folder and image with --force instead")
	got, err := oldSystem.push(t, m, 4, func(h *update.Head) { h.Force = true })
	require.NoError(t, err)
	require.True(t, got.Unchanged)
	r, err := ReadRecord(m.Record)
	require.NoError(t, err)
	require.EqualValues(t, 4, r.Serial)
}

func TestWhatIsTakenAllTheSame(t *testing.T) {
	t.Run("signed by the same with Secure Boot", func(t *testing.T) {
		runs, pushed := makeSystem("a", "the plant"), makeSystem("b", "the plant")
		m := machineOf(t, newDisk(t, runs), runs)
		m.SecureBoot = true
		_, err := pushed.push(t, m, 2, nil)
		require.NoError(t, err)
	})
	t.Run("with the same key for PCR 11", func(t *testing.T) {
		runs, pushed := makeSystem("a", "pcr key"), makeSystem("b", "pcr key")
		_, err := pushed.push(t, machineOf(t, newDisk(t, runs), runs), 2, nil)
		require.NoError(t, err)
	})
	t.Run("twice", func(t *testing.T) {
		disk := newDisk(t, oldSystem)
		m := machineOf(t, disk, oldSystem)
		for range 2 {
			_, err := newSystem.push(t, m, 2, nil)
			require.NoError(t, err)
		}
		require.Len(t, entriesOf(t, disk), 2)
	})
}

func TestADiskThatKeepsSomethingElseIsFoundOut(t *testing.T) {
	for worn, want := range map[string]string{"7": "the cluster part: the disk does not hold what was written", "1": "the disk does not hold what was written"} {
		disk := newDisk(t, oldSystem)
		m := machineOf(t, disk, oldSystem)
		open := m.Open
		m.Open = func(path string, whole bool) (Device, error) {
			d, err := open(path, whole)
			w := d.(window)
			if path == worn && path == "1" {
				return &wornContent{w}, err
			}
			w.worn = path == worn
			return w, err
		}
		_, err := newSystem.push(t, m, 2, nil)
		require.ErrorContains(t, err, want)
		s, _ := boots(t, disk, oldSystem)
		require.Equal(t, oldSystem.hash, s.hash)
	}
}

// What a cut left on the ESP without a name is no reason to refuse an update.
func TestRoomThatACutLeftTakenIsGivenBack(t *testing.T) {
	before := newDisk(t, oldSystem)
	disk := before.clone()
	e := editESP(t, disk)
	n := e.Free() - 4<<20
	content := bytes.NewReader(make([]byte, n))
	require.NoError(t, e.Create("/loader", "of somebody", n, content, time.Unix(1_800_000_000, 0)))
	disk = disk.cut(before, len(disk.ops)-2, nil) // All is there but its name.
	m := machineOf(t, disk, oldSystem)
	_, err := both.push(t, m, 2, nil)
	require.NoError(t, err)
	boots(t, disk, both)
}

// wornContent keeps directories and tables, and loses a bit of what is in files.
type wornContent struct{ window }

func (w *wornContent) Through() io.WriterAt { return w }

func (w *wornContent) WriteAt(b []byte, off int64) (int, error) {
	b = bytes.Clone(b)
	if i := bytes.Index(b, []byte("console=ttyS0")); i >= 0 {
		b[i] ^= 1
	}
	return w.window.WriteAt(b, off)
}

func TestWhatTheKeyDidNotSignIsNoUpdate(t *testing.T) {
	good := newSystem.head(t, 3, nil)
	for name, tt := range map[string]struct {
		data []byte
		keys []string
		want string
	}{
		"an image without keys": {good, nil, "was built without keys"},
		"another key":           {good, []string{"AAAA"}, "is not signed by this cluster"},
		"another serial":        {bytes.Replace(good, []byte(`"serial":3`), []byte(`"serial":4`), 1), signingKeys, "is not signed by this cluster"},
		"nothing":               {nil, signingKeys, "ends in its head"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := OpenMessage(bytes.NewReader(tt.data), tt.keys)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestAnObjectThatWasChangedOnTheWayIsAskedForAgain(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"a bit":          func(b []byte) []byte { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b },
		"a byte less":    func(b []byte) []byte { return b[:len(b)-1] },
		"a byte more":    func(b []byte) []byte { return append(bytes.Clone(b), 0) },
		"something else": func([]byte) []byte { return []byte("else") },
	} {
		for which := range 3 {
			t.Run(fmt.Sprint(name, " ", which), func(t *testing.T) {
				disk := newDisk(t, oldSystem)
				m := machineOf(t, disk, oldSystem)
				p := newSystem.withRoot(newRoot, "").pusher(t, 3, nil)
				bad := pieces.SumOf(newSystem.withRoot(newRoot, "").objects(t)[[]int{0, 1, 2}[which]])
				good := p.objects[bad]
				p.objects[bad] = change(good)
				_, err := p.run(t, m)
				require.ErrorContains(t, err, "the node asks again for what it was sent")
				s, _ := boots(t, disk, oldSystem)
				require.Equal(t, oldSystem.hash, s.hash)

				p.objects[bad] = good
				_, err = p.run(t, m)
				require.NoError(t, err)
				s, _ = boots(t, disk, oldSystem, newSystem.withRoot(newRoot, ""))
				require.Equal(t, newRoot.hash, s.root.hash)
			})
		}
	}
}

func TestAnUpdateThatWouldNotStartIsRefused(t *testing.T) {
	other := newSystem
	other.hash = oldSystem.hash
	swapped := newSystem
	swapped.uki = oldSystem.uki
	// A UKI that starts something else, with the words where no signature covers them, or where stage1 does not look.
	words := "roothash=" + rootHash + " spore.clusterhash=" + newSystem.hash + " "
	text := newSystem
	text.uki = []byte(words)
	smuggled := func(uki []byte) system {
		s := newSystem
		s.uki = uki
		return s
	}
	old := "roothash=" + rootHash + " spore.clusterhash=" + oldSystem.hash + " "
	sections := func(list ...testpe.Section) []byte { return testpe.Program(list...) }
	broken := newSystem
	broken.part = bytes.Clone(broken.part)
	broken.part[5000] ^= 1
	for name, tt := range map[string]struct {
		system system
		want   string
	}{
		"a UKI of another cluster part":  {swapped, "does not start its cluster part"},
		"a UKI of another root":          {func() system { s := newSystem.withRoot(newRoot, ""); s.uki = newSystem.uki; return s }(), "does not start its cluster part"},
		"a UKI with the words behind it": {smuggled(append(bytes.Clone(oldSystem.uki), words...)), "does not start its cluster part"},
		"a UKI with the words in another section": {smuggled(sections(
			testpe.Section{Name: ".cmdline", Data: []byte(old)}, testpe.Section{Name: ".osrel", Data: []byte(words)},
		)), "does not start its cluster part"},
		"a UKI with two command lines": {smuggled(sections(
			testpe.Section{Name: ".cmdline", Data: []byte(old)}, testpe.Section{Name: ".cmdline", Data: []byte(words)},
		)), "does not start its cluster part"},
		"a UKI with both in one command line": {smuggled(sections(testpe.Section{Name: ".cmdline", Data: []byte(old + words)})), "does not start its cluster part"},
		"a UKI without a command line":        {smuggled(sections(testpe.Section{Name: ".osrel", Data: []byte(words)})), "does not start its cluster part"},
		"a UKI that is none":                  {text, "not a program that firmware starts"},
		"a cluster part with another tree":    {broken, "the cluster part of the update: block 1"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := newDisk(t, oldSystem)
			m := machineOf(t, disk, oldSystem)
			_, err := tt.system.push(t, m, 3, nil)
			var r Refusal
			require.ErrorAs(t, err, &r)
			require.ErrorContains(t, err, tt.want)
			require.Empty(t, disk.ops)
			require.NoDirExists(t, m.Work)
		})
	}
	m := machineOf(t, newDisk(t, oldSystem), oldSystem)
	got, err := other.push(t, m, 3, nil)
	require.NoError(t, err)
	require.True(t, got.Unchanged, "a head that names the cluster part that runs: nothing else of it is looked at")
}

func TestEntryNames(t *testing.T) {
	for file, want := range map[string]Entry{
		"spore_0123456789ab.efi":       {Stem: "spore_0123456789ab"},
		"spore_1+3.efi":                {Stem: "spore_1", Counted: true, Left: 3},
		"spore_1+2-1.EFI":              {Stem: "spore_1", Counted: true, Left: 2, Done: 1},
		"spore_1+0-3.efi":              {Stem: "spore_1", Counted: true, Done: 3},
		"a+b.efi":                      {Stem: "a+b"},
		"a+1-.efi":                     {Stem: "a+1-"},
		"a+99999999999999999999-1.efi": {Stem: "a+99999999999999999999-1"},
	} {
		e, ok := ParseEntry(file)
		require.True(t, ok)
		require.Equal(t, want, e)
		require.True(t, strings.EqualFold(file, e.File()), file)
	}
	for _, file := range []string{"x", ".efi", "vmlinuz"} {
		_, ok := ParseEntry(file)
		require.False(t, ok, file)
	}
	trial := Entry{Stem: "s", Counted: true, Left: 2, Done: 1}
	require.Equal(t, "s.efi", trial.Good().File())
	require.Equal(t, "s+0-3.efi", trial.Bad().File())
	require.Equal(t, "s+3.efi", trial.Returned().File())
	require.Equal(t, "s.efi", trial.Good().Returned().File())
	require.Equal(t, "spore_1000000000008_0123456789ab+3.efi",
		newEntry([]Entry{{Stem: "spore_999999999999"}, {Stem: "spore_1000000000007_ffffffffffff"}}, strings.Repeat("0123456789ab", 5)).File())
}

func TestWhatTheStatusSaysOfEachState(t *testing.T) {
	base := Record{Serial: 4, ClusterHash: "new", RootHash: "root", Previous: "old", BootID: "then", Starts: 2, Problem: "mosquitto.service did not come up"}
	for name, tt := range map[string]struct {
		state, runs, boot string
		want              Info
	}{
		"its record is not there yet":    {"", "new", "now", Info{ClusterHash: "new", Trial: true}},
		"taken back while it ran":        {Failed, "old", "then", Info{ClusterHash: "old", Problem: "the pushed configuration was taken back: mosquitto.service did not come up"}},
		"staged":                         {Staged, "old", "then", Info{ClusterHash: "old", Staged: "new", Other: "new"}},
		"on trial":                       {OnTrial, "new", "now", Info{ClusterHash: "new", Serial: 4, Trial: true, Other: "old"}},
		"kept":                           {Kept, "new", "now", Info{ClusterHash: "new", Serial: 4, Other: "old"}},
		"went back with a reason":        {Failed, "old", "now", Info{ClusterHash: "old", Other: "new", Problem: "went back to this configuration: mosquitto.service did not come up"}},
		"went back without":              {OnTrial, "old", "now", Info{ClusterHash: "old", Other: "new", Problem: "went back to this configuration: the pushed one was started 2 times and neither came up nor said why"}},
		"never came as far as its state": {Staged, "old", "now", Info{ClusterHash: "old", Other: "new", Problem: "went back to this configuration: the pushed one was not started, or got not as far as the node's state"}},
		"cut off while it was written":   {Staging, "old", "now", Info{ClusterHash: "old", Other: "new", Problem: "the pushed configuration was not written to its end; push it again"}},
		"another image since":            {Kept, "third", "now", Info{ClusterHash: "third"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := base
			if r.State = tt.state; r.State == "" {
				r = Record{}
			}
			tt.want.RootHash = "root"
			require.Equal(t, &tt.want, InfoOf(r, "root", tt.runs, tt.boot, true))
		})
	}
	base.State = OnTrial
	require.False(t, InfoOf(base, "root", "new", "now", false).Trial, "a cut came between the entry and the record")
	require.False(t, InfoOf(Record{}, "root", "other", "now", false).Trial, "never pushed to")
	require.Nil(t, InfoOf(base, "", "", "", false), "nothing of stage1: a container")
}

func writeRecord(m *Machine, r Record) {
	if err := r.Write(m.Record); err != nil {
		panic(err)
	}
}

func editESP(t *testing.T, d *medium) *fat.Editor {
	t.Helper()
	e, err := fat.Edit(window{d, espAt, espSize, false}, espSize)
	require.NoError(t, err)
	return e
}

// rename gives the entry that runs another counter.
func rename(t *testing.T, d *medium, to Entry) {
	t.Helper()
	to.Stem = strings.TrimSuffix(oldSystem.entryFile(), ".efi")
	require.NoError(t, editESP(t, d).Rename(Dir, oldSystem.entryFile(), to.File()))
}

// retype makes a partition one that is none of ours.
func retype(t *testing.T, d *medium, number int) {
	t.Helper()
	table, err := gpt.Read(window{d, 0, diskSize, false}, diskSize, 512)
	require.NoError(t, err)
	for i := range table.Partitions {
		if table.Partitions[i].Number == number {
			table.Partitions[i].Type = gpt.GUID{7}
		}
	}
	e, err := table.Encode(diskSize, 512)
	require.NoError(t, err)
	d.put(e.Primary, 512)
	d.put(e.Backup, e.BackupAt)
}

func ptr[T any](v T) *T { return &v }

func FuzzParseEntry(f *testing.F) {
	f.Add("spore_1000000000001_0123456789ab+2-1.efi")
	f.Fuzz(func(t *testing.T, file string) {
		e, ok := ParseEntry(file)
		if !ok || !e.Counted {
			return
		}
		again, ok := ParseEntry(e.File())
		require.True(t, ok)
		require.Equal(t, e, again)
	})
}
