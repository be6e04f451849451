package bootloader

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/pki/authenticode"
	"spore/test/faults"
)

func TestANewLoaderIsTriedOnceAndTakesThePlaceOfTheOldOne(t *testing.T) {
	c := newComputer(t, newDisk(t, oldLoader))
	c.start(t, oldLoader, newLoader)
	require.NoError(t, c.Step(), "nothing came yet")
	require.Empty(t, c.disk.ops)

	c.keep(t, newLoader)
	c.Settled = false
	require.NoError(t, c.Step())
	require.Empty(t, c.disk.ops, "its system is on trial")
	require.Contains(t, c.record(t).Text(), "at the restart after its system has shown that it stays")

	c.Settled = true
	require.NoError(t, c.Step())
	require.Equal(t, Tried, c.record(t).State)
	require.Contains(t, c.record(t).Text(), "is tried at the next start")
	require.Equal(t, oldLoader, c.file(t, DefaultPath), "the old one stays where it is")
	ops := len(c.disk.ops)
	require.NoError(t, c.Step(), "nothing more until the next start")
	require.Len(t, c.disk.ops, ops)

	require.Equal(t, newLoader, c.start(t, oldLoader, newLoader))
	require.NoError(t, c.Step())
	require.Equal(t, Kept, c.record(t).State)
	require.Empty(t, c.record(t).Text())
	require.Equal(t, newLoader, c.file(t, DefaultPath))
	require.Equal(t, oldLoader, c.file(t, SystemdPath), "the second copy waits for the first to start the machine")
	require.Nil(t, c.file(t, NextPath))
	require.NoError(t, c.Step())
	require.Equal(t, oldLoader, c.file(t, SystemdPath))
	require.Equal(t, newLoader, c.again(t, oldLoader, newLoader))
	c.requireEnd(t, Kept, newLoader)
	require.Equal(t, newLoader, c.start(t, oldLoader, newLoader))
	ops = len(c.disk.ops)
	require.NoError(t, c.Step())
	require.Len(t, c.disk.ops, ops)

	c.keep(t, newLoader)
	require.NoError(t, c.Step())
	require.Len(t, c.disk.ops, ops, "one that is known is not tried again")
}

func TestALoaderThatDoesNotStartTheMachineIsNotTaken(t *testing.T) {
	for name, tt := range map[string]struct {
		forgets bool
		good    [][]byte
	}{
		"it returns at once":                     {false, [][]byte{oldLoader}},
		"the firmware does not do as it is told": {true, [][]byte{oldLoader, badLoader}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newComputer(t, newDisk(t, oldLoader))
			c.forgets = tt.forgets
			c.start(t, tt.good...)
			c.keep(t, badLoader)
			require.NoError(t, c.Step())
			require.Equal(t, oldLoader, c.start(t, tt.good...))
			require.NoError(t, c.Step())
			c.requireEnd(t, Failed, oldLoader)
			require.Contains(t, c.record(t).Text(), "the boot loader stays the one before: the firmware was told to start")

			c.keep(t, badLoader)
			require.NoError(t, c.Step())
			c.requireEnd(t, Failed, oldLoader)
			require.NoError(t, Keep(c.Dir, badLoader, "root", "cluster", true))
			require.NoError(t, c.Step())
			require.Equal(t, Tried, c.record(t).State, "by force it is tried again")
		})
	}
}

func TestALoaderIsNotTriedTogetherWithANewSystem(t *testing.T) {
	c := newComputer(t, newDisk(t, oldLoader))
	c.start(t, oldLoader)
	c.keep(t, newLoader)
	require.NoError(t, c.Step())
	c.Settled = false // Somebody pushes.
	require.NoError(t, c.Step())
	require.Equal(t, Waiting, c.record(t).State)
	require.Equal(t, oldLoader, c.start(t, oldLoader, newLoader))
	require.NoError(t, c.Step())
	require.Equal(t, Waiting, c.record(t).State)
	c.Settled = true
	require.NoError(t, c.Step())

	// The system was staged too late to take it back: what comes up then is judged when that system stays.
	require.Equal(t, newLoader, c.start(t, oldLoader, newLoader))
	c.Settled = false
	require.NoError(t, c.Step())
	require.Equal(t, Waiting, c.record(t).State)
	c.Settled = true
	require.NoError(t, c.Step())
	c.again(t, oldLoader, newLoader)
	c.requireEnd(t, Kept, newLoader)
}

func TestALoaderMayFollowAnotherWithoutAStartInBetween(t *testing.T) {
	c := newComputer(t, newDisk(t, oldLoader))
	c.start(t, oldLoader)
	c.keep(t, newLoader)
	require.NoError(t, c.Step())
	c.start(t, oldLoader, newLoader)
	require.NoError(t, c.Step())
	require.Equal(t, Kept, c.record(t).State)
	c.keep(t, badLoader)
	require.NoError(t, c.Step())
	require.Equal(t, Tried, c.record(t).State)
	require.Equal(t, newLoader, c.start(t, oldLoader, newLoader))
	require.NoError(t, c.Step())
	c.requireEnd(t, Failed, newLoader)
}

func TestALoaderThatComesWhileAnotherIsTriedIsTheOneThatIsTaken(t *testing.T) {
	third := program("the third one ")
	for name, withdrawn := range map[string]bool{"the other is taken back": true, "the other is started": false} {
		t.Run(name, func(t *testing.T) {
			c := newComputer(t, newDisk(t, oldLoader))
			good := [][]byte{oldLoader, newLoader, third}
			c.start(t, good...)
			c.keep(t, newLoader)
			require.NoError(t, c.Step())
			c.keep(t, third)
			if c.Settled = false; withdrawn {
				require.NoError(t, c.Step())
			}
			c.Settled = true
			for range 4 {
				c.start(t, good...)
				require.NoError(t, c.Step())
			}
			c.requireEnd(t, Kept, third)
		})
	}
}

// At each write and each flush the power is cut: the machine starts, and ends with the loader that it is to have.
func TestAPowerCutAtAnyWriteLeavesAMachineThatStarts(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for name, tt := range map[string]struct {
		loader []byte
		good   [][]byte
		state  string
		end    []byte
	}{
		"a good loader": {newLoader, [][]byte{oldLoader, newLoader}, Kept, newLoader},
		"a bad loader":  {badLoader, [][]byte{oldLoader}, Failed, oldLoader},
	} {
		t.Run(name, func(t *testing.T) {
			tried := 0
			// The first start writes it to the ESP, the second one judges it, the third one sees to the second copy.
			for phase := range 3 {
				c := newComputer(t, newDisk(t, oldLoader))
				c.start(t, tt.good...)
				c.keep(t, tt.loader)
				for range phase {
					require.NoError(t, c.Step())
					c.start(t, tt.good...)
				}
				before := c.disk.clone()
				c.disk.ops = nil
				type point struct{ vars, dir map[string][]byte }
				points := []point{{files(t, c.Vars), files(t, c.Dir)}}
				c.disk.each = func() { points = append(points, point{files(t, c.Vars), files(t, c.Dir)}) }
				require.NoError(t, c.Step())
				c.disk.each = nil
				if phase == 2 && tt.state == Failed {
					require.Empty(t, c.disk.ops)
					continue
				}
				require.NotEmpty(t, c.disk.ops)
				for n := range len(c.disk.ops) + 1 {
					again := newComputer(t, c.disk.cut(before, n, rng))
					again.boots = 10
					putFiles(t, again.Vars, points[n].vars)
					putFiles(t, again.Dir, points[n].dir)
					for range 4 {
						again.start(t, tt.good...)
						require.NoError(t, again.Step(), "cut at %d of phase %d", n, phase)
					}
					if phase == 1 && n == 0 {
						// Nobody had seen that the new one started the machine.
						again.requireEnd(t, Failed, oldLoader)
					} else {
						again.requireEnd(t, tt.state, tt.end)
					}
					tried++
				}
			}
			faults.Tried(t, tried)
		})
	}
}

// The record comes after what it tells of: a cut between the two is found out by what the loader says.
func TestACutBetweenTheFirmwareAndTheRecord(t *testing.T) {
	c := newComputer(t, newDisk(t, oldLoader))
	c.start(t, oldLoader)
	c.keep(t, newLoader)
	require.NoError(t, c.Step())
	r := c.record(t)
	r.State, r.BootID = Waiting, ""
	require.NoError(t, r.write(c.Dir))
	require.Equal(t, newLoader, c.again(t, oldLoader, newLoader))
	c.again(t, oldLoader, newLoader)
	c.requireEnd(t, Kept, newLoader)
}

func TestALoaderThatTheFirmwareWouldNotStartIsNotTried(t *testing.T) {
	hash := func(b []byte) authenticode.Hash {
		h, err := authenticode.HashOf(bytes.NewReader(b), int64(len(b)))
		require.NoError(t, err)
		return h
	}
	signed, other := program("the new one ", "a"), program("the new one ", "b")
	broken := bytes.Clone(signed)
	broken[1100]++
	notEFI := bytes.Clone(newLoader)
	notEFI[0x40+24+68] = 3
	for name, tt := range map[string]struct {
		old, fresh []byte
		change     func(*computer)
		problem    string
	}{
		"no program":      {oldLoader, []byte("no program"), nil, "not a program that firmware starts"},
		"none of EFI":     {oldLoader, notEFI, nil, "not an EFI program"},
		"not signed":      {program("old ", "a"), newLoader, secure, "would not start the new one: it is not signed"},
		"somebody else's": {program("old ", "a"), other, secure, "not signed by a certificate that signed the one before"},
		"changed":         {program("old ", "a"), broken, secure, "its firmware would not start the new one"},
		"revoked": {program("old ", "a"), signed, func(c *computer) {
			secure(c)
			c.Keys.Forbidden.Programs = append(c.Keys.Forbidden.Programs, hash(signed))
		}, "(dbx)"},
		"other for the TPM":  {program("old ", "a"), other, func(c *computer) { secure(c); c.Sealed = true }, "its TPM opens the state by who"},
		"nobody for the TPM": {oldLoader, newLoader, func(c *computer) { secure(c); c.Sealed = true }, "it is not signed"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newComputer(t, newDisk(t, tt.old))
			c.start(t, tt.old)
			if tt.change != nil {
				tt.change(c)
			}
			c.keep(t, tt.fresh)
			require.NoError(t, c.Step())
			require.Contains(t, c.record(t).Problem, tt.problem)
			c.requireEnd(t, Failed, tt.old)
		})
	}
	for name, tt := range map[string]struct {
		fresh  []byte
		sealed bool
	}{"the same": {signed, false}, "the same for the TPM": {signed, true}} {
		t.Run(name, func(t *testing.T) {
			c := newComputer(t, newDisk(t, program("old ", "a")))
			c.start(t, program("old ", "a"))
			c.SecureBoot, c.Sealed = true, tt.sealed
			c.keep(t, tt.fresh)
			require.NoError(t, c.Step())
			require.Equal(t, Tried, c.record(t).State, c.record(t).Problem)
		})
	}
}

func secure(c *computer) { c.SecureBoot = true }

func TestWhatCannotBeTriedNowWaitsAndSaysWhy(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*testing.T, *computer)
		want   string
	}{
		"firmware that keeps nothing": {func(t *testing.T, c *computer) {
			require.NoError(t, os.Symlink("/dev/null", filepath.Join(c.Vars, "BootNext"+globalVendor)))
		}, "does not keep what is to be started next"},
		"no word of the loader": {func(t *testing.T, c *computer) {
			require.NoError(t, os.Remove(filepath.Join(c.Vars, "LoaderImageIdentifier"+loaderVendor)))
		}, "does not say which file it is"},
		"another loader": {func(t *testing.T, c *computer) {
			require.NoError(t, os.WriteFile(filepath.Join(c.Vars, "LoaderImageIdentifier"+loaderVendor), text(`\EFI\GRUB.EFI`), 0o600))
		}, "none of the loaders that an image has"},
		"another disk": {func(t *testing.T, c *computer) {
			require.NoError(t, os.WriteFile(filepath.Join(c.Vars, "LoaderDevicePartUUID"+loaderVendor),
				text("00000000-298b-8c83-b481-d9d11cd24e34"), 0o600))
		}, "and not from 1 on its own disk"},
		"a worn disk": {func(_ *testing.T, c *computer) {
			open := c.Open
			c.Open = func(p string, whole bool) (Device, error) {
				d, err := open(p, whole)
				w := d.(window)
				w.worn = func(at int64) bool { return at > 1_070_000 } // behind the directories
				return w, err
			}
		}, "the disk is worn out"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newComputer(t, newDisk(t, oldLoader))
			c.start(t, oldLoader)
			c.keep(t, newLoader)
			tt.change(t, c)
			require.ErrorContains(t, c.Step(), tt.want)
			r := c.record(t)
			require.Equal(t, Waiting, r.State)
			require.Contains(t, r.Text(), "so far it was not: ")
			require.Equal(t, oldLoader, c.file(t, DefaultPath))
			os.Remove(filepath.Join(c.Vars, "BootNext"+globalVendor))
			require.Equal(t, oldLoader, c.start(t, oldLoader))
		})
	}
}

func TestADiskThatDoesNotTakeTheNewLoaderKeepsTheOldOne(t *testing.T) {
	c := newComputer(t, newDisk(t, oldLoader))
	c.start(t, oldLoader)
	c.keep(t, newLoader)
	require.NoError(t, c.Step())
	c.start(t, oldLoader, newLoader)
	open, writes := c.Open, 0
	c.Open = func(p string, whole bool) (Device, error) {
		d, err := open(p, whole)
		w := d.(window)
		w.worn = func(int64) bool { writes++; return writes == 1 } // The new content.
		return w, err
	}
	require.ErrorContains(t, c.Step(), "the disk is worn out")
	require.Equal(t, oldLoader, c.file(t, DefaultPath))
	c.Open = open
	require.NoError(t, c.Step())
	c.again(t, oldLoader, newLoader)
	c.requireEnd(t, Kept, newLoader)
}

func TestARecordThatIsNoneIsAnError(t *testing.T) {
	c := newComputer(t, newDisk(t, oldLoader))
	require.Equal(t, Record{}, c.record(t))
	putFiles(t, c.Dir, map[string][]byte{recordName: []byte("{")})
	require.ErrorContains(t, c.Step(), "read what is known of a new boot loader")
	require.Error(t, Keep(c.Dir, newLoader, "", "", false))

	c = newComputer(t, newDisk(t, oldLoader))
	c.start(t, oldLoader)
	c.keep(t, newLoader)
	require.NoError(t, os.WriteFile(filepath.Join(c.Dir, contentName), []byte("else"), 0o600))
	require.NoError(t, c.Step())
	c.requireEnd(t, Failed, oldLoader)
	require.Contains(t, c.record(t).Problem, "damaged on the state partition")
	_, err := Record{SHA256: "x"}.content(t.TempDir())
	require.True(t, errors.Is(err, fs.ErrNotExist))
}
