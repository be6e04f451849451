package medium

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// stick is a boot medium in a directory.
func stick(t *testing.T, content []byte) (ESP, string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, Path)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	if content != nil {
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
	none := func(string) error { return nil }
	return ESP{Device: "/dev/none", Dir: dir, Mount: func(_, _ string) error { return nil }, Unmount: none}, path
}

func is(want []byte) func([]byte) bool {
	return func(got []byte) bool { return bytes.Equal(got, want) }
}

var errCut = errors.New("the power was cut")

func TestARemovalThatIsCutAnywhereIsFinishedLater(t *testing.T) {
	bundle := bytes.Repeat([]byte("secret "), 300)
	var steps []string
	e, path := stick(t, bundle)
	e.Step = func(name string) error { steps = append(steps, name); return nil }
	require.NoError(t, e.Remove(is(bundle)))
	require.NoFileExists(t, path)
	require.Equal(t, []string{"mark", "sync the mark", "blank", "sync the blank", "delete", "sync the directory"}, steps,
		"nothing but the mark may be written before the mark is on the disk")

	for cut := range steps {
		t.Run("before "+steps[cut], func(t *testing.T) {
			e, path := stick(t, bundle)
			n := 0
			e.Step = func(string) error {
				if n++; n > cut {
					return errCut
				}
				return nil
			}
			require.ErrorIs(t, e.Remove(is(bundle)), errCut)
			if left, err := os.ReadFile(path); err == nil && !bytes.Equal(left, bundle) {
				require.True(t, Erased(left))
				require.Len(t, left, len(bundle), "it is overwritten where it lies")
			}
			e.Step = nil
			require.NoError(t, e.Remove(is(bundle)))
			require.NoFileExists(t, path)
			require.NoError(t, e.Remove(is(bundle)), "and once more")
		})
	}
}

func TestTheBytesAreOverwrittenWhereTheyLie(t *testing.T) {
	bundle := bytes.Repeat([]byte("secret "), 300)
	e, path := stick(t, bundle)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, e.Remove(is(bundle)))
	left := make([]byte, len(bundle))
	_, err = f.ReadAt(left, 0)
	require.NoError(t, err)
	require.NotContains(t, string(left), "secret")
	require.Equal(t, make([]byte, len(bundle)-len(Mark)), left[len(Mark):])
}

func TestNothingElseIsRemoved(t *testing.T) {
	for name, content := range map[string][]byte{"another bundle": []byte("another"), "an empty file": {}, "a huge file": make([]byte, maxFile+1)} {
		t.Run(name, func(t *testing.T) {
			e, path := stick(t, content)
			require.ErrorIs(t, e.Remove(is([]byte("mine"))), ErrOther)
			left, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, content, left)
		})
	}
	e, _ := stick(t, nil)
	require.NoError(t, e.Remove(is(nil)), "no file is no error")
}

func TestALinkIsNotFollowed(t *testing.T) {
	e, path := stick(t, nil)
	target := filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.WriteFile(target, []byte("mine"), 0o600))
	require.NoError(t, os.Symlink(target, path))
	require.Error(t, e.Remove(is([]byte("mine"))))
	require.FileExists(t, target)
}

func TestAMediumThatCannotBeMountedIsSaid(t *testing.T) {
	e, path := stick(t, []byte("mine"))
	e.Mount = func(_, _ string) error { return errors.New("it is read-only") }
	require.EqualError(t, e.Remove(is([]byte("mine"))), "mount the boot medium: it is read-only")
	require.FileExists(t, path)
}
