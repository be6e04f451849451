package slot

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootloader"
	"spore/storage/pieces"
	"spore/wire/update"
)

// withLoader is an update with a boot loader.
func (s system) withLoader(t *testing.T, serial uint64, loader []byte, change func(*update.Head)) *pusher {
	t.Helper()
	index := s.bootIndex(t)
	if len(loader) > 0 {
		x, err := pieces.Cut(bytes.NewReader(loader), int64(len(loader)), nil, 64<<10)
		require.NoError(t, err)
		index = append(index, x...)
	}
	p := s.pusher(t, serial, func(h *update.Head) {
		var err error
		h.Boot, err = update.Sum(bytes.NewReader(encoded(index)))
		require.NoError(t, err)
		if len(loader) > 0 {
			h.Loader, err = update.Sum(bytes.NewReader(loader))
			require.NoError(t, err)
		}
		if change != nil {
			change(h)
		}
	})
	p.objects[pieces.SumOf(encoded(index))] = encoded(index)
	for rest, i := loader, len(s.bootIndex(t)); i < len(index); i++ {
		p.objects[index[i].Sum], rest = rest[:index[i].Size], rest[index[i].Size:]
	}
	return p
}

var (
	espLoader   = []byte("loader") // that makeDisk writes
	otherLoader = bytes.Repeat([]byte("another loader "), 9000)
)

func loaderMachine(t *testing.T) *Machine {
	t.Helper()
	m := machineOf(t, newDisk(t, oldSystem), oldSystem)
	m.Loader = filepath.Join(t.TempDir(), "loader")
	return m
}

func loaderRecord(t *testing.T, m *Machine) bootloader.Record {
	t.Helper()
	r, err := bootloader.Read(m.Loader)
	require.NoError(t, err)
	return r
}

func TestAnUpdateBringsABootLoaderThatIsTriedLater(t *testing.T) {
	m := loaderMachine(t)
	p := newSystem.withLoader(t, 2, otherLoader, nil)
	got, err := p.run(t, m)
	require.NoError(t, err)
	require.True(t, got.Change.UKI)
	require.True(t, got.Change.Loader)
	r := loaderRecord(t, m)
	require.Equal(t, bootloader.Waiting, r.State)
	require.True(t, r.Is(newSystem.root.hash, newSystem.hash))
	kept, err := os.ReadFile(filepath.Join(m.Loader, "loader.efi"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(otherLoader, kept))
	d, err := m.Open("1", false)
	require.NoError(t, err)
	f := editESP(t, d.(window).m)
	now, err := bootloader.ReadESP(f.FS, bootloader.DefaultPath)
	require.NoError(t, err)
	require.Equal(t, espLoader, now, "the one on the ESP stays")
}

func TestABootLoaderThatTheESPHasIsNotSent(t *testing.T) {
	m := loaderMachine(t)
	p := newSystem.withLoader(t, 2, espLoader, nil)
	got, err := p.run(t, m)
	require.NoError(t, err)
	require.False(t, got.Change.Loader)
	require.Equal(t, bootloader.Record{}, loaderRecord(t, m))
	for _, o := range p.sent {
		require.NotEqual(t, espLoader, o)
	}
}

func TestABootLoaderAloneIsAnUpdateOfWhatRuns(t *testing.T) {
	m := loaderMachine(t)
	p := oldSystem.withLoader(t, 5, otherLoader, nil)
	p.wish.DryRun = true
	got, err := p.run(t, m)
	require.NoError(t, err)
	require.True(t, got.Change.Loader)
	require.False(t, got.Change.Root || got.Change.UKI)
	require.Equal(t, bootloader.Record{}, loaderRecord(t, m))

	p.wish.DryRun = false
	entries := entriesOf(t, diskOf(t, m))
	got, err = p.run(t, m)
	require.NoError(t, err)
	require.True(t, got.Unchanged)
	require.True(t, got.Change.Loader)
	require.Equal(t, entries, entriesOf(t, diskOf(t, m)), "what is started stays as it is")
	require.NoDirExists(t, m.Work)
	size := 0
	for _, o := range p.sent {
		size += len(o)
	}
	require.Less(t, size, len(otherLoader)+4096, "UKI and cluster part are there")
	r, err := ReadRecord(m.Record)
	require.NoError(t, err)
	require.EqualValues(t, 5, r.Serial)
	require.Equal(t, bootloader.Waiting, loaderRecord(t, m).State)

	// One that is known already is not sent again, whatever became of it, except by force.
	again := oldSystem.withLoader(t, 6, otherLoader, nil)
	got, err = again.run(t, m)
	require.NoError(t, err)
	require.True(t, got.Unchanged)
	require.True(t, len(again.sent) == 0)
	failed(t, m, otherLoader)
	again = oldSystem.withLoader(t, 7, otherLoader, nil)
	_, err = again.run(t, m)
	require.NoError(t, err)
	require.True(t, len(again.sent) == 0)
	require.Equal(t, bootloader.Failed, loaderRecord(t, m).State)
	again = oldSystem.withLoader(t, 8, otherLoader, func(h *update.Head) { h.Force = true })
	_, err = again.run(t, m)
	require.NoError(t, err)
	require.Equal(t, bootloader.Waiting, loaderRecord(t, m).State)
}

// failed is what package bootloader leaves of a loader that did not start the machine.
func failed(t *testing.T, m *Machine, loader []byte) {
	t.Helper()
	sum := pieces.SumOf(loader)
	require.NoError(t, os.WriteFile(filepath.Join(m.Loader, "loader.json"), []byte(fmt.Sprintf(
		`{"sha256":"%s","rootHash":"%s","clusterHash":"%s","state":"failed","problem":"p"}`, sum, rootHash, oldSystem.hash)), 0o600))
}

func diskOf(t *testing.T, m *Machine) *medium {
	t.Helper()
	d, err := m.Open("1", false)
	require.NoError(t, err)
	return d.(window).m
}

func TestAnUpdateWithTheLoaderOfTheESPForgetsAnotherThatFailed(t *testing.T) {
	m := loaderMachine(t)
	_, err := oldSystem.withLoader(t, 2, otherLoader, nil).run(t, m)
	require.NoError(t, err)
	failed(t, m, otherLoader)
	_, err = newSystem.withLoader(t, 3, espLoader, nil).run(t, m)
	require.NoError(t, err)
	require.Equal(t, pieces.SumOf(espLoader).String(), loaderRecord(t, m).SHA256)
}

func TestALoaderThatIsNotWhatWasSignedIsNotKept(t *testing.T) {
	m := loaderMachine(t)
	p := newSystem.withLoader(t, 2, otherLoader, func(h *update.Head) { h.Loader.SHA256 = strings.Repeat("1", 64) })
	_, err := p.run(t, m)
	require.ErrorContains(t, err, "its pieces do not make up the boot loader that was signed")
	require.Equal(t, bootloader.Record{}, loaderRecord(t, m))
	require.Len(t, entriesOf(t, diskOf(t, m)), 1)
}

func TestAMachineThatSomethingElseStartsTakesTheUpdateWithoutTheLoader(t *testing.T) {
	m := loaderMachine(t)
	require.NoError(t, editESP(t, diskOf(t, m)).Remove("/EFI/BOOT", "BOOTX64.EFI"))
	got, err := oldSystem.withLoader(t, 2, otherLoader, nil).run(t, m)
	require.NoError(t, err)
	require.True(t, got.Unchanged)
	require.Equal(t, bootloader.Record{}, loaderRecord(t, m))
}

// The firmware has more than one option from the moment on that the loader may meet what it cannot start.
func TestTheFirmwareHasFurtherOptionsBeforeAnUpdateIsStarted(t *testing.T) {
	for name, tt := range map[string]struct {
		current []byte
		want    int
		said    string
	}{
		"as it started the machine":         {[]byte{3, 0}, 4, ""},
		"by an option that is not in order": {[]byte{9, 0}, 1, "BootOrder does not have Boot0009"},
		"firmware that does not say":        {nil, 1, "it is not known which boot option the firmware takes"},
	} {
		t.Run(name, func(t *testing.T) {
			const vendor = "-8be4df61-93ca-11d2-aa0d-00e098032b8c"
			m := loaderMachine(t)
			m.Vars = t.TempDir()
			put := func(name string, data []byte) {
				require.NoError(t, os.WriteFile(filepath.Join(m.Vars, name+vendor), append([]byte{7, 0, 0, 0}, data...), 0o600))
			}
			put("BootOrder", []byte{3, 0})
			if tt.current != nil {
				put("BootCurrent", tt.current)
			}
			var said []string
			m.Say = func(s string) { said = append(said, s) }
			disk := diskOf(t, m)
			disk.each = func() {
				got, err := os.ReadFile(filepath.Join(m.Vars, "BootOrder"+vendor))
				require.NoError(t, err)
				if len(entriesOf(t, disk)) > 1 {
					require.Len(t, got, 4+2*tt.want, "before the entry of the update")
				}
			}
			_, err := newSystem.withLoader(t, 2, espLoader, nil).run(t, m)
			require.NoError(t, err, "the update is taken in any case")
			require.Len(t, entriesOf(t, disk), 2)
			require.Contains(t, strings.Join(said, "\n"), tt.said)
			if tt.said == "" {
				require.NotContains(t, strings.Join(said, "\n"), "the firmware has nothing to start")
			}
		})
	}
}
