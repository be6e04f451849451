package bootloader

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootoption"
	"spore/storage/gpt"
)

// placed is a machine whose new loader has its place, and does not start from there: the second copy, the one before,
// has started the machine.
func placed(t *testing.T) *computer {
	t.Helper()
	c := withFallbacks(t)
	c.keep(t, newLoader)
	require.NoError(t, c.Step())
	c.again(t, oldLoader, newLoader)
	require.Equal(t, newLoader, c.file(t, DefaultPath))
	require.Equal(t, oldLoader, c.start(t, oldLoader))
	return c
}

func (c *computer) current(t *testing.T, number uint16) {
	t.Helper()
	data := []byte{6, 0, 0, 0, byte(number), byte(number >> 8)}
	require.NoError(t, os.WriteFile(filepath.Join(c.Vars, "BootCurrent"+globalVendor), data, 0o600))
}

// Whatever way the machine came up by its second copy: that copy stays, and the machine starts again.
func TestTheCopyThatStartedTheMachineIsNotReplacedByOneThatDidNot(t *testing.T) {
	esp := gpt.Partition{Number: 1, GUID: espGUID, Start: espAt, Size: espSize}
	option := func(t *testing.T, c *computer, o bootoption.Option) uint16 {
		number, err := bootoption.Variables(c.Vars).Add(o)
		require.NoError(t, err)
		return number
	}
	for name, come := range map[string]func(t *testing.T, c *computer){
		"by the second option": func(*testing.T, *computer) {},
		"by the fourth option": func(t *testing.T, c *computer) { c.current(t, option(t, c, fallback(2, esp, 512))) },
		"by an option that a person made": func(t *testing.T, c *computer) {
			c.current(t, option(t, c, bootoption.Option{Description: "mine", Partition: esp, SectorSize: 512, File: SystemdPath}))
		},
		"by an option with data that the firmware has added": func(t *testing.T, c *computer) {
			name := filepath.Join(c.Vars, bootoption.Name(option(t, c, fallback(0, esp, 512)))+globalVendor)
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(name, append(data, "BO"...), 0o600))
		},
		"and the firmware does not say by which option": func(t *testing.T, c *computer) {
			require.NoError(t, os.Remove(filepath.Join(c.Vars, "BootCurrent"+globalVendor)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := placed(t)
			come(t, c)
			require.NoError(t, c.Step())
			require.Equal(t, oldLoader, c.file(t, SystemdPath))
			require.Equal(t, oldLoader, c.start(t, oldLoader), "the machine starts")
		})
	}
}

func TestAnOptionThatTheFirmwareWroteAnewIsNotAddedAgain(t *testing.T) {
	c := placed(t)
	esp := gpt.Partition{Number: 1, GUID: espGUID, Start: espAt, Size: espSize}
	number, err := bootoption.Variables(c.Vars).Add(fallback(0, esp, 512))
	require.NoError(t, err)
	name := filepath.Join(c.Vars, bootoption.Name(number)+globalVendor)
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, append(data, "BO"...), 0o600))
	before, err := filepath.Glob(filepath.Join(c.Vars, "Boot0*"))
	require.NoError(t, err)
	require.NoError(t, Fallbacks(c.Vars, esp, 512))
	after, err := filepath.Glob(filepath.Join(c.Vars, "Boot0*"))
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// sectors is an ESP with places that cannot be read until they are written.
type sectors struct {
	window
	bad map[int64]bool
}

func (s sectors) ReadAt(b []byte, off int64) (int, error) {
	for at := range s.bad {
		if off <= at && at < off+int64(len(b)) {
			return 0, errors.New("input/output error")
		}
	}
	return s.window.ReadAt(b, off)
}

func (s sectors) WriteAt(b []byte, off int64) (int, error) {
	for at := range s.bad {
		if off <= at && at < off+int64(len(b)) {
			delete(s.bad, at)
		}
	}
	return s.window.WriteAt(b, off)
}

func TestAFirstCopyThatCannotBeReadIsWrittenOnceMore(t *testing.T) {
	c := placed(t)
	image := make([]byte, espSize)
	_, err := (window{c.disk, espAt, espSize, nil}).ReadAt(image, 0)
	require.NoError(t, err)
	bad := map[int64]bool{} // One of them is where it was tried.
	for i := 0; i+len(newLoader) <= len(image); i += 512 {
		if bytes.HasPrefix(image[i:], newLoader) {
			bad[int64(i)] = true
		}
	}
	require.NotEmpty(t, bad)
	open := c.Open
	c.Open = func(p string, whole bool) (Device, error) {
		d, err := open(p, whole)
		if w, ok := d.(window); ok && !whole {
			return sectors{w, bad}, err
		}
		return d, err
	}
	require.NoError(t, c.Step())
	require.Equal(t, newLoader, c.file(t, DefaultPath))
	require.Equal(t, oldLoader, c.file(t, SystemdPath), "the machine starts by it until the first one has")
}
