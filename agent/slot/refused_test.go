package slot

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/state"
	"spore/pki/authenticode"
	"spore/storage/gpt"
	"spore/test/testpe"
	"spore/wire/update"
)

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

func TestWhatIsRefusedOfARootIsNotWritten(t *testing.T) {
	resize := func(number int) func(*testing.T, *medium) {
		return func(t *testing.T, d *medium) {
			table, err := gpt.Read(window{d, 0, diskSize, false}, diskSize, 512)
			require.NoError(t, err)
			for i := range table.Partitions {
				if table.Partitions[i].Number == number {
					table.Partitions[i].Size = 4096
				}
			}
			e, err := table.Encode(diskSize, 512)
			require.NoError(t, err)
			d.put(e.Primary, 512)
			d.put(e.Backup, e.BackupAt)
		}
	}
	gone := func(number int) func(*testing.T, *medium) {
		return func(t *testing.T, d *medium) { retype(t, d, number) }
	}
	signed := func(s, certificate string, r rootFS) *system {
		return ptr(makeSystem(s, certificate).withRoot(r, certificate))
	}
	for name, tt := range map[string]struct {
		change       func(*Machine)
		head         func(*update.Head)
		disk         func(*testing.T, *medium)
		wish         Wish
		runs, system *system
		want         string
	}{
		"no second root":                {disk: gone(5), want: "has no second slot for a root file system: there was no room for it"},
		"no second tree":                {disk: gone(6), want: "has no second slot for a hash tree of a root file system"},
		"no second cluster part":        {disk: gone(7), want: "has no second slot for a configuration"},
		"the running root is not there": {disk: gone(2), want: "was written anew since this machine was started"},
		"a slot too small for the root": {disk: resize(5), want: "KiB and its slot 4: build with larger slots.root in image.yaml"},
		"a slot too small for the tree": {disk: resize(6), want: "KiB and its slot 4: build with larger slots.verity in image.yaml"},
		"another cluster":               {head: func(h *update.Head) { h.Cluster = "other" }, want: "the update is of the cluster with the id other"},
		"without the node":              {head: func(h *update.Head) { h.Nodes = []string{"edge-02"} }, want: "the update has no node edge-01"},
		"an older one":                  {head: func(h *update.Head) { h.Serial = 4 }, want: "the update is older (4)"},
		"an ESP that is full": {disk: func(t *testing.T, d *medium) {
			e := editESP(t, d)
			n := e.Free() - 4<<20
			require.NoError(t, e.Create("/loader", "of somebody", n, bytes.NewReader(make([]byte, n)), time.Unix(1_800_000_000, 0)))
		}, want: "the ESP has room for 4 MiB, and"},
		"state of another node": {change: func(m *Machine) {
			m.State = state.Info{Kind: state.Tmpfs, Warning: "the state partition is of another node"}
		}, want: "would forget what was pushed to it: the state partition is of another node"},
		"from the network":                 {change: func(m *Machine) { m.Boot.NetworkURL = "http://x/" }, want: "give the server the new image"},
		"unsigned with Secure Boot":        {change: func(m *Machine) { m.SecureBoot = true }, want: "the UKI of the update is not signed"},
		"signed by somebody else":          {change: func(m *Machine) { m.SecureBoot = true }, runs: signed("y", "the plant", someRoot), system: signed("x", "somebody", newRoot), want: "another certificate"},
		"with another key for PCR 11":      {runs: signed("y", "pcr key", someRoot), system: signed("x", "pcr other", newRoot), want: "not by the same key"},
		"fetched without a clock":          {wish: Wish{Pull: true}, want: "no time server keeps this node's clock"},
		"fetched by a clock that is wrong": {wish: Wish{Pull: true}, head: func(h *update.Head) { h.Until = time.Unix(1_900_000_000, 0) }, want: "no time server keeps this node's clock"},
		"fetched when it is no news":       {change: func(m *Machine) { m.Synchronized = true }, wish: Wish{Pull: true}, head: func(h *update.Head) { h.Until = time.Unix(1_799_999_999, 0) }, want: "was to be taken until 2027-01-15T07:59:59Z, and that is over"},
	} {
		t.Run(name, func(t *testing.T) {
			runs, pushed := oldSystem, both
			if tt.runs != nil {
				runs, pushed = *tt.runs, *tt.system
			}
			disk := newDisk(t, runs)
			m := machineOf(t, disk, runs)
			last := Record{Serial: 5, ClusterHash: runs.hash, RootHash: runs.root.hash, State: Kept}
			writeRecord(m, last)
			if tt.change != nil {
				tt.change(m)
			}
			if tt.disk != nil {
				tt.disk(t, disk)
				disk.ops = nil
			}
			p := pushed.pusher(t, 6, tt.head)
			p.wish = tt.wish
			_, err := p.run(t, m)
			var r Refusal
			require.ErrorAs(t, err, &r)
			require.ErrorContains(t, err, tt.want)
			require.Empty(t, disk.ops)
			require.NoDirExists(t, m.Work)
			got, err := ReadRecord(m.Record)
			require.NoError(t, err)
			require.Equal(t, last, got)
		})
	}
}

func TestARootIsLookedAtBeforeAnythingStartsIt(t *testing.T) {
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	looked := 0
	var refused []string
	m.Look = func(root, tree, hash string) ([]string, []string) {
		looked++
		require.Equal(t, []string{"5", "6", newRoot.hash}, []string{root, tree, hash})
		have := make([]byte, len(newRoot.data))
		_, err := window{disk, rootB, mib, false}.ReadAt(have, 0)
		require.NoError(t, err)
		require.Equal(t, newRoot.data, have, "it is whole")
		s, _ := boots(t, disk, oldSystem)
		require.Equal(t, rootHash, s.root.hash)
		return refused, []string{"the new kernel has no driver for a mouse"}
	}
	refused = []string{"the new kernel has no driver for the boot disk"}
	_, err := both.push(t, m, 2, nil)
	var r Refusal
	require.ErrorAs(t, err, &r)
	require.ErrorContains(t, err, "this machine would not come up with the update as it does now: the new kernel has no driver for the boot disk; build")
	s, _ := boots(t, disk, oldSystem)
	require.Equal(t, rootHash, s.root.hash)
	require.NoFileExists(t, m.Record)
	require.NoDirExists(t, m.Work)

	got, err := both.push(t, m, 3, func(h *update.Head) { h.Force = true })
	require.NoError(t, err, "by the operator's word")
	require.Equal(t, []string{"the new kernel has no driver for the boot disk", "the new kernel has no driver for a mouse"}, got.Change.Risks)
	boots(t, disk, both)
	require.Equal(t, 2, looked)
	_, err = newSystem.push(t, m, 4, nil)
	require.NoError(t, err)
	require.Equal(t, 2, looked, "a configuration has no root")
}

func TestAnUpdateOrAWayBackThatWouldNotReadTheDataIsRefused(t *testing.T) {
	older := func(newer, older map[string]string) string {
		if newer["etcd"] > older["etcd"] && older["etcd"] != "" {
			return "etcd " + older["etcd"] + " does not read what " + newer["etcd"] + " wrote"
		}
		return ""
	}
	version := func(v string) func(*update.Head) {
		return func(h *update.Head) { h.Root.Versions = map[string]string{"etcd": v} }
	}
	disk := newDisk(t, oldSystem)
	m := machineOf(t, disk, oldSystem)
	m.Versions, m.Unsafe = map[string]string{"etcd": "3.6"}, older
	_, err := both.push(t, m, 2, version("3.5"))
	var r Refusal
	require.ErrorAs(t, err, &r)
	require.ErrorContains(t, err, "they would not read this node's data: etcd 3.5 does not read what 3.6 wrote")
	require.Empty(t, disk.ops)
	got, err := both.push(t, m, 3, version("3.7"))
	require.NoError(t, err)
	require.Equal(t, &update.Change{Root: true, UKI: true, From: map[string]string{"etcd": "3.6"}, To: map[string]string{"etcd": "3.7"}}, got.Change)

	m, _ = become(t, disk, m, oldSystem, both)
	m.Versions, m.Unsafe = map[string]string{"etcd": "3.7"}, older
	disk.ops = nil
	_, err = Back(*m, Wish{})
	require.ErrorAs(t, err, &r)
	require.ErrorContains(t, err, "the programs of the system before would not read this node's data: etcd 3.6 does not read what 3.7 wrote")
	require.Empty(t, disk.ops)
	m.Versions = map[string]string{"etcd": "3.6"}
	before, err := Back(*m, Wish{DryRun: true})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"etcd": "3.6"}, before.Change.To)

	m.Versions = map[string]string{"etcd": "3.7"}
	_, err = oldSystem.push(t, m, 4, version("3.6"))
	require.ErrorContains(t, err, "etcd 3.6 does not read what 3.7 wrote", "a push is no other way back")
	_, err = oldSystem.push(t, m, 5, func(h *update.Head) { version("3.6")(h); h.Force = true })
	require.NoError(t, err, "by the operator's word")
}
