package bootloader

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootoption"
	"spore/storage/fat"
	"spore/storage/gpt"
	"spore/test/faults"
)

// installed is a machine that never took an update; its firmware has an option for the disk alone.
func installed(t *testing.T) *computer {
	t.Helper()
	c := withFallbacks(t)
	esp := gpt.Partition{Number: 1, GUID: espGUID, Start: espAt, Size: espSize}
	for i := range fallbacks {
		number, err := bootoption.Variables(c.Vars).Add(fallback(i, esp, 512))
		require.NoError(t, err)
		require.NoError(t, bootoption.Variables(c.Vars).Drop(number))
	}
	require.Equal(t, []string{"UEFI disk " + DefaultPath, "somebody else's"}, order(t, c))
	return c
}

// rewrite gives a file on the ESP other content.
func (c *computer) rewrite(t *testing.T, name string, content []byte) {
	t.Helper()
	f, err := fat.Edit(window{c.disk, espAt, espSize, nil}, espSize)
	require.NoError(t, err)
	require.NoError(t, f.Replace(path.Dir(name), path.Base(name), int64(len(content)), bytes.NewReader(content), c.Now()))
}

func TestAMachineThatNeverTookAnUpdateHasMoreThanOneOption(t *testing.T) {
	c := installed(t)
	require.NoError(t, c.Upkeep())
	require.Equal(t, order(t, withFallbacks(t)), order(t, c))
	before := files(t, c.Vars)
	writes := len(c.disk.ops)
	require.NoError(t, c.Upkeep())
	require.Equal(t, before, files(t, c.Vars), "all is in order")
	require.Len(t, c.disk.ops, writes)
	require.NoDirExists(t, c.Dir)
	require.Empty(t, c.said)
}

func TestAMachineWhoseFirmwareStartsAUKIHasNoLoaderToKeep(t *testing.T) {
	c := installed(t)
	c.rewrite(t, DefaultPath, make([]byte, maxOnESP+1))
	before, writes := files(t, c.Vars), len(c.disk.ops)
	require.NoError(t, c.Upkeep())
	require.Equal(t, before, files(t, c.Vars))
	require.Len(t, c.disk.ops, writes)
	require.Empty(t, c.said)
}

func TestFirmwareWithoutAnOrderIsSaidToHaveNothingElse(t *testing.T) {
	c := installed(t)
	require.NoError(t, os.Remove(filepath.Join(c.Vars, "BootCurrent"+globalVendor)))
	before := files(t, c.Vars)
	require.NoError(t, c.Upkeep(), "the machine runs")
	require.Equal(t, before, files(t, c.Vars))
	require.Contains(t, c.said[len(c.said)-1], "the firmware has nothing to start where the boot loader does not")
}

func TestOptionsOfADiskThatIsGoneAreRemoved(t *testing.T) {
	gone := gpt.Partition{Number: 1, GUID: gpt.MustParseGUID("0b5d0d2c-5f0a-4a1c-9c11-000000000001"), Start: espAt, Size: espSize}
	second := gpt.Partition{Number: 1, GUID: gpt.MustParseGUID("0b5d0d2c-5f0a-4a1c-9c11-000000000002"), Start: espAt, Size: espSize}
	own := gpt.Partition{Number: 1, GUID: espGUID, Start: espAt, Size: espSize}
	tables := func() ([]gpt.Table, error) {
		return []gpt.Table{{Partitions: []gpt.Partition{own}}, {Partitions: []gpt.Partition{second}}}, nil
	}
	next := bootoption.Option{Description: description, Partition: gone, SectorSize: 512, File: NextPath}
	renamed := fallback(0, gone, 512)
	renamed.Description = "mine"
	moved := fallback(0, gone, 512)
	moved.File = "/EFI/mine.efi"
	for name, tt := range map[string]struct {
		option  bootoption.Option
		current bool
		tables  func() ([]gpt.Table, error)
		says    string
		stays   bool
	}{
		"of a disk that was flashed anew": {option: fallback(0, gone, 512), tables: tables},
		"the last of them":                {option: fallback(2, gone, 512), tables: tables},
		"of a new loader on it":           {option: next, tables: tables},
		"of another disk that is there":   {option: fallback(0, second, 512), tables: tables, stays: true},
		"which started the machine":       {option: fallback(0, gone, 512), tables: tables, current: true, stays: true},
		"which somebody named":            {option: renamed, tables: tables, stays: true},
		"of another file":                 {option: moved, tables: tables, stays: true},
		"and nobody knows the disks":      {option: fallback(0, gone, 512), stays: true},
		"and a disk cannot be read": {
			option: fallback(0, gone, 512), stays: true, says: "boot options of disks that are gone stay: look for the disks of old boot options: broken",
			tables: func() ([]gpt.Table, error) { return nil, errors.New("broken") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := withFallbacks(t)
			c.Tables = tt.tables
			v := bootoption.Variables(c.Vars)
			number, err := v.Add(tt.option)
			require.NoError(t, err)
			require.NoError(t, v.Behind(ownOption, []uint16{number}))
			if tt.current {
				c.current(t, number)
			}
			before := files(t, c.Vars)
			require.NoError(t, c.Upkeep())
			if tt.stays {
				require.Contains(t, strings.Join(c.said, "\n"), tt.says)
				require.Equal(t, before, files(t, c.Vars))
				return
			}
			require.NoFileExists(t, filepath.Join(c.Vars, bootoption.Name(number)+globalVendor))
			require.Equal(t, order(t, withFallbacks(t)), order(t, c), "and it is in no order")
			require.Contains(t, c.said[len(c.said)-1], "no disk of this machine has its EFI partition "+gone.GUID.String())
		})
	}
}

// torn are damaged copies of a loader.
func torn(loader []byte) map[string][]byte {
	second := bytes.Clone(loader)
	clear(second[len(second)*3/4:])
	middle := bytes.Clone(loader)
	middle[len(middle)/2] ^= 0x10
	return map[string][]byte{
		"one byte":             loader[:1],
		"half of it":           loader[:len(loader)/2],
		"zeros":                make([]byte, len(loader)),
		"without its end":      second,
		"with one flipped bit": middle,
	}
}

func TestADamagedCopyOfTheLoaderIsWrittenOnceMore(t *testing.T) {
	// Large enough that a quarter of it is sectors.
	loader := program("a boot loader that is some sectors long and is not the same in each of them ")
	signed := program("a boot loader that is some sectors long and is not the same in each of them ", "me")
	for _, good := range [][]byte{loader, signed} {
		for what, bad := range torn(good) {
			for place, at := range map[string]struct{ damaged, by string }{
				"the first copy":  {DefaultPath, SystemdPath},
				"the second copy": {SystemdPath, DefaultPath},
			} {
				t.Run(place+" is "+what, func(t *testing.T) {
					c := withFallbacks(t)
					c.rewrite(t, at.by, good)
					c.rewrite(t, at.damaged, bad)
					require.Equal(t, good, c.start(t, good))
					require.NoError(t, c.Upkeep())
					require.Equal(t, good, c.file(t, DefaultPath))
					require.Equal(t, good, c.file(t, SystemdPath))
					require.Contains(t, c.said[len(c.said)-1], at.damaged+" on the ESP is damaged")
					c.said = nil
					c.start(t, good)
					require.NoError(t, c.Upkeep())
					require.Empty(t, c.said)
				})
			}
		}
	}
}

func TestAFirstCopyThatIsGoneIsWrittenOnceMore(t *testing.T) {
	c := withFallbacks(t)
	f, err := fat.Edit(window{c.disk, espAt, espSize, nil}, espSize)
	require.NoError(t, err)
	require.NoError(t, f.Remove(path.Dir(DefaultPath), path.Base(DefaultPath)))
	require.Equal(t, oldLoader, c.start(t, oldLoader))
	require.NoError(t, c.Upkeep())
	require.Equal(t, oldLoader, c.file(t, DefaultPath))
}

func TestACopyOfTheLoaderIsLeftAloneWhereItMayBeSomebodys(t *testing.T) {
	third := program("somebody else's ")
	for name, change := range map[string]func(t *testing.T, c *computer){
		"a first copy that is another program": func(t *testing.T, c *computer) { c.rewrite(t, DefaultPath, third) },
		"a second copy that is another program": func(t *testing.T, c *computer) {
			c.rewrite(t, SystemdPath, third)
		},
		"a second copy that another certificate signed": func(t *testing.T, c *computer) {
			c.rewrite(t, SystemdPath, program("the old one ", "somebody"))
		},
		"no second copy": func(t *testing.T, c *computer) {
			f, err := fat.Edit(window{c.disk, espAt, espSize, nil}, espSize)
			require.NoError(t, err)
			require.NoError(t, f.Remove(path.Dir(SystemdPath), path.Base(SystemdPath)))
		},
		"a damaged copy, and a loader from elsewhere": func(t *testing.T, c *computer) {
			c.damage(t, SystemdPath)
			image := text(`\EFI\mine\loader.efi`)
			require.NoError(t, os.WriteFile(filepath.Join(c.Vars, "LoaderImageIdentifier"+loaderVendor), image, 0o600))
		},
		"a damaged copy, and a loader of another disk": func(t *testing.T, c *computer) {
			c.damage(t, SystemdPath)
			guid := text("0b5d0d2c-5f0a-4a1c-9c11-000000000001")
			require.NoError(t, os.WriteFile(filepath.Join(c.Vars, "LoaderDevicePartUUID"+loaderVendor), guid, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := withFallbacks(t)
			c.start(t, oldLoader)
			change(t, c)
			first, second := c.file(t, DefaultPath), c.file(t, SystemdPath)
			require.NoError(t, c.Upkeep())
			require.Equal(t, first, c.file(t, DefaultPath))
			require.Equal(t, second, c.file(t, SystemdPath))
		})
	}
}

func TestCopiesThatDifferDuringATrialAreLeftAlone(t *testing.T) {
	c := withFallbacks(t)
	c.keep(t, newLoader)
	require.NoError(t, c.Step())
	c.again(t, oldLoader, newLoader) // The first copy is the new one, the second the one before.
	c.damage(t, DefaultPath)
	require.Equal(t, oldLoader, c.start(t, oldLoader))
	require.NoError(t, c.Upkeep())
	require.NotEqual(t, oldLoader, c.file(t, DefaultPath), "Step knows what belongs there")
	require.NoError(t, c.Step())
	require.Equal(t, newLoader, c.file(t, DefaultPath))
}

// The machine starts after a cut at each write of the repair and of the options.
func TestUpkeepCanBeCutOffAtAnyWrite(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	good := program("a boot loader that is some sectors long and is not the same in each of them ")
	c := withFallbacks(t)
	c.rewrite(t, SystemdPath, good)
	c.damage(t, DefaultPath)
	c.start(t, good)
	before := c.disk.clone()
	c.disk.ops = nil
	require.NoError(t, c.Upkeep())
	require.NotEmpty(t, c.disk.ops)
	whole := c.disk
	faults.Tried(t, len(whole.ops)+1)
	for n := range len(whole.ops) + 1 {
		c.disk = whole.cut(before, n, rng)
		require.Equal(t, good, c.start(t, good))
		require.NoError(t, c.Upkeep())
		require.Equal(t, good, c.file(t, DefaultPath))
	}
}
