package ext4

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// made is a file system as systemd-repart makes it.
func made(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Truncate(file, 300<<20))
	require.NoError(t, execute(t.Context(), nil, "mkfs.ext4", "-q", "-F", "-m", "0", "-I", "256", "-E", "nodiscard,lazy_itable_init=1", file))
	return file
}

func execute(ctx context.Context, _ []string, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return errors.Join(err, errors.New(string(out)))
	}
	return nil
}

func silent(string) {}

func TestAFileSystemIsMadeToCountProjectsAndToForgetThem(t *testing.T) {
	file := made(t)
	counts, err := CountsProjects(file)
	require.NoError(t, err)
	require.False(t, counts)
	require.NoError(t, CountProjects(t.Context(), file, execute, silent))
	counts, err = CountsProjects(file)
	require.NoError(t, err)
	require.True(t, counts)
	require.NoError(t, execute(t.Context(), nil, "e2fsck", "-f", "-n", file), "and is as it should be")
	require.NoError(t, ForgetProjects(t.Context(), file, execute))
	counts, err = CountsProjects(file)
	require.NoError(t, err)
	require.False(t, counts)
	require.NoError(t, execute(t.Context(), nil, "e2fsck", "-f", "-n", file))
	require.NoError(t, CountProjects(t.Context(), file, execute, silent), "it can be made to count again")
}

func TestAFileSystemThatCountsCostsNoProgram(t *testing.T) {
	file := made(t)
	require.NoError(t, CountProjects(t.Context(), file, execute, silent))
	none := func(context.Context, []string, string, ...string) error { return errors.New("a program was started") }
	require.NoError(t, CountProjects(t.Context(), file, none, silent))
}

func TestAFileSystemIsCheckedBeforeItIsChanged(t *testing.T) {
	file := made(t)
	var programs []string
	record := func(_ context.Context, _ []string, name string, args ...string) error {
		programs = append(programs, name+" "+strings.Join(args[:len(args)-1], " "))
		return nil
	}
	require.NoError(t, CountProjects(t.Context(), file, record, silent))
	require.Equal(t, []string{"e2fsck -f -p", "tune2fs -O project -Q prjquota"}, programs)
	programs = nil
	broken := func(context.Context, []string, string, ...string) error {
		programs = append(programs, "once")
		return errors.New("exit status 4")
	}
	require.ErrorContains(t, CountProjects(t.Context(), file, broken, silent), "e2fsck could not repair it: exit status 4")
	require.Len(t, programs, 1, "what cannot be repaired is not changed")
	_, err := CountsProjects(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
