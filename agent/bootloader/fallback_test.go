package bootloader

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootoption"
	"spore/storage/fat"
	"spore/storage/gpt"
)

// ownOption is the number of the boot option by which the firmware starts a disk by itself.
const ownOption = 7

// withFallbacks is a machine whose firmware has an option for the disk, and those of Fallbacks.
func withFallbacks(t *testing.T) *computer {
	t.Helper()
	c := newComputer(t, newDisk(t, oldLoader))
	esp := gpt.Partition{Number: 1, GUID: espGUID, Start: espAt, Size: espSize}
	own := bootoption.Option{Description: "UEFI disk", Partition: esp, SectorSize: 512, File: DefaultPath}
	variable := func(name string, data []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(c.Vars, name+globalVendor), append([]byte{7, 0, 0, 0}, data...), 0o600))
	}
	variable(bootoption.Name(ownOption), own.Encode())
	variable("BootOrder", []byte{ownOption, 0, 99, 0})
	c.start(t, oldLoader)
	require.NoError(t, Fallbacks(c.Vars, esp, 512))
	before := files(t, c.Vars)
	require.NoError(t, Fallbacks(c.Vars, esp, 512), "once more")
	require.Equal(t, before, files(t, c.Vars))
	return c
}

// damage changes a file on the ESP where it lies.
func (c *computer) damage(t *testing.T, name string) {
	t.Helper()
	f, err := fat.Edit(window{c.disk, espAt, espSize, nil}, espSize)
	require.NoError(t, err)
	torn := bytes.Repeat([]byte{0}, len(c.file(t, name)))
	require.NoError(t, f.Replace(path.Dir(name), path.Base(name), int64(len(torn)), bytes.NewReader(torn), c.Now()))
}

func order(t *testing.T, c *computer) (out []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.Vars, "BootOrder"+globalVendor))
	require.NoError(t, err)
	for data = data[4:]; len(data) > 0; data = data[2:] {
		option, err := os.ReadFile(filepath.Join(c.Vars, bootoption.Name(binary.LittleEndian.Uint16(data))+globalVendor))
		if err != nil {
			out = append(out, "somebody else's")
			continue
		}
		o, err := bootoption.Parse(option[4:], 512)
		require.NoError(t, err)
		out = append(out, o.Description+" "+o.File)
	}
	return out
}

func TestTheFirmwareHasMoreThanOneOptionAndTakesTheSameOneFirst(t *testing.T) {
	require.Equal(t, []string{
		"UEFI disk " + DefaultPath, "Spore, second try " + SystemdPath, "Spore, third try " + DefaultPath,
		"Spore, fourth try " + SystemdPath, "somebody else's",
	}, order(t, withFallbacks(t)))
}

func TestFirmwareThatDoesNotSayWhatItStartedGetsNoOption(t *testing.T) {
	vars := t.TempDir()
	require.ErrorIs(t, Fallbacks(vars, gpt.Partition{Number: 1}, 512), fs.ErrNotExist)
	require.Empty(t, files(t, vars))
}

func TestALoaderThatTheFirmwareCannotLoadHasASecondCopyThatStarts(t *testing.T) {
	c := withFallbacks(t)
	c.damage(t, DefaultPath)
	require.Equal(t, oldLoader, c.start(t, oldLoader))
}

// The disk said that it had kept the new loader, and had not: whichever of the two copies was written last is damaged.
func TestADiskThatLosesWhatItKeptNeverDamagesBothCopies(t *testing.T) {
	good := [][]byte{oldLoader, newLoader}
	t.Run("the first", func(t *testing.T) {
		c := withFallbacks(t)
		c.keep(t, newLoader)
		require.NoError(t, c.Step())
		c.again(t, good...)
		require.Equal(t, newLoader, c.file(t, DefaultPath))
		c.damage(t, DefaultPath)
		require.Equal(t, oldLoader, c.again(t, good...))
		require.Equal(t, newLoader, c.file(t, DefaultPath), "it is written once more")
		require.Contains(t, c.said[len(c.said)-1], "damaged on the ESP")
		require.Equal(t, oldLoader, c.file(t, SystemdPath))
		require.Equal(t, newLoader, c.again(t, good...))
		require.Equal(t, newLoader, c.file(t, SystemdPath))
		require.NoFileExists(t, filepath.Join(c.Dir, contentName))
	})
	t.Run("the second", func(t *testing.T) {
		c := withFallbacks(t)
		c.keep(t, newLoader)
		require.NoError(t, c.Step())
		c.again(t, good...)
		c.again(t, good...)
		c.damage(t, SystemdPath)
		require.Equal(t, newLoader, c.start(t, good...))
	})
}

func TestALoaderThatStartsOnceAndNotFromItsPlaceGivesWayToTheOneBefore(t *testing.T) {
	c := withFallbacks(t)
	c.keep(t, newLoader)
	require.NoError(t, c.Step())
	c.again(t, oldLoader, newLoader)
	require.Equal(t, newLoader, c.file(t, DefaultPath))
	require.Equal(t, oldLoader, c.again(t, oldLoader), "the firmware goes on to the second copy")
	r := c.record(t)
	require.Equal(t, Failed, r.State)
	require.Contains(t, r.Problem, "does not start it from its place")
	require.Equal(t, oldLoader, c.file(t, DefaultPath))
	require.Equal(t, oldLoader, c.file(t, SystemdPath))
}

func TestALoaderThatSomebodyElseWroteIsLeftAlone(t *testing.T) {
	third := program("somebody else's ")
	c := withFallbacks(t)
	c.keep(t, newLoader)
	require.NoError(t, c.Step())
	c.again(t, oldLoader, newLoader)
	f, err := fat.Edit(window{c.disk, espAt, espSize, nil}, espSize)
	require.NoError(t, err)
	dir, base := path.Dir(DefaultPath), path.Base(DefaultPath)
	require.NoError(t, f.Replace(dir, base, int64(len(third)), bytes.NewReader(third), c.Now()))
	require.Equal(t, third, c.again(t, oldLoader, newLoader, third))
	require.Equal(t, third, c.file(t, DefaultPath))
	require.Equal(t, oldLoader, c.file(t, SystemdPath))
}
