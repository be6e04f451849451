package ext4

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

func TestAFileSystemThatWasMadeToCountIsNotCheckedOnceMore(t *testing.T) {
	for name, more := range map[string]string{"with checksums": "metadata_csum", "without checksums": "^metadata_csum,^64bit"} {
		t.Run(name, func(t *testing.T) {
			file := made(t)
			require.NoError(t, execute(t.Context(), nil, "mkfs.ext4", "-q", "-F", "-O", more, file))
			require.NoError(t, CountProjects(t.Context(), file, execute, silent))
			none := func(context.Context, []string, string, ...string) error { return errors.New("a program was started") }
			require.NoError(t, Check(t.Context(), file, none, silent))
			out, err := exec.Command("dumpe2fs", "-h", file).CombinedOutput()
			require.NoError(t, err, string(out))
			require.Regexp(t, `(?m)^Filesystem state: +clean$`, string(out))
			require.Regexp(t, `(?m)^Last mounted on: +<not available>$`, string(out))
			require.NoError(t, execute(t.Context(), nil, "e2fsck", "-f", "-n", file))
		})
	}
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
	require.Equal(t, []string{
		"e2fsck -f -p", "tune2fs -E force_fsck -M /spore-counts-projects", "tune2fs -M  -O project -Q prjquota",
	}, programs)
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

// What the disk has where power is cut just before tune2fs writes the superblock, which it does last.
func TestAFileSystemWhosePowerIsCutWhileItIsChangedIsRepaired(t *testing.T) {
	count := func(file string, run Runner) error { return CountProjects(t.Context(), file, run, silent) }
	forget := func(file string, run Runner) error { return ForgetProjects(t.Context(), file, run) }
	for name, change := range map[string]func(string, Runner) error{"to count": count, "to forget": forget} {
		t.Run(name, func(t *testing.T) {
			file := made(t)
			require.NoError(t, execute(t.Context(), nil, "debugfs", "-w", "-R", "write /etc/passwd kept", file))
			if name == "to forget" {
				require.NoError(t, count(file, execute))
			}
			errCut := errors.New("the power was cut")
			cut := func(ctx context.Context, env []string, name string, args ...string) error {
				if !slices.Contains(args, "-O") {
					return execute(ctx, env, name, args...)
				}
				old := superblockOf(t, file)
				require.NoError(t, execute(ctx, env, name, args...))
				f, err := os.OpenFile(file, os.O_WRONLY, 0)
				require.NoError(t, err)
				_, err = f.WriteAt(old, 1024)
				require.NoError(t, errors.Join(err, f.Close()))
				return errCut
			}
			// Nothing runs any more after the cut.
			dead := false
			err := change(file, func(ctx context.Context, env []string, name string, args ...string) error {
				if dead {
					return errCut
				}
				err := cut(ctx, env, name, args...)
				dead = errors.Is(err, errCut)
				return err
			})
			require.ErrorIs(t, err, errCut)
			require.Error(t, execute(t.Context(), nil, "e2fsck", "-f", "-n", file), "it is damaged")
			require.NoError(t, Check(t.Context(), file, execute, silent))
			require.NoError(t, execute(t.Context(), nil, "e2fsck", "-f", "-n", file))
			out, err := exec.Command("debugfs", "-R", "cat kept", file).Output()
			require.NoError(t, err)
			want, err := os.ReadFile("/etc/passwd")
			require.NoError(t, err)
			require.Equal(t, string(want), string(out))
			require.NoError(t, count(file, execute), "the next start counts")
			counts, err := CountsProjects(file)
			require.NoError(t, err)
			require.True(t, counts)
			// Only what was cut off is repaired without a question.
			require.NoError(t, execute(t.Context(), nil, "tune2fs", "-E", "force_fsck", file))
			var args []string
			require.NoError(t, Check(t.Context(), file, func(_ context.Context, _ []string, _ string, a ...string) error {
				args = a
				return nil
			}, silent))
			require.Equal(t, []string{"-p", file}, args)
		})
	}
}

func superblockOf(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	b := make([]byte, 1024)
	_, err = f.ReadAt(b, 1024)
	require.NoError(t, err)
	return b
}
