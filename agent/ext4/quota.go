package ext4

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Runner runs a program and returns its error with what it printed.
type Runner func(ctx context.Context, env []string, name string, args ...string) error

// CountsProjects tells whether a file system counts what the files of each project fill.
func CountsProjects(device string) (bool, error) {
	f, err := os.Open(device)
	if err != nil {
		return false, err
	}
	defer f.Close()
	sb, err := readSuperblock(f)
	return sb.projects, err
}

// changing is what a file system says it was mounted on last, from before it is changed until it is; the kernel writes
// another place when it is mounted.
const changing = "/spore-counts-projects"

// CountProjects has a file system that is not mounted count what the files of each project fill; nothing is to be done
// where it does.
//
// tune2fs has no journal, and writes the superblock last: where power is cut before, the file system would say that it
// is clean, and would not be. So it is checked first, and says that it has errors until it is changed. What a cut
// leaves e2fsck -p does not repair (an inode that nobody names); by changing, Check knows that it was whole before.
func CountProjects(ctx context.Context, device string, run Runner, say func(string)) error {
	counts, err := CountsProjects(device)
	if err != nil || counts {
		return err
	}
	say("having the file system of " + device + " count what projects fill")
	if err := Repair(ctx, device, run); err != nil {
		return err
	}
	if err := run(ctx, nil, "tune2fs", "-E", "force_fsck", "-M", changing, device); err != nil {
		return err
	}
	if err := run(ctx, nil, "tune2fs", "-M", "", "-O", "project", "-Q", "prjquota", device); err != nil {
		return errors.Join(err, Check(ctx, device, run, say))
	}
	return forgetErrors(device)
}

// ForgetProjects has a file system that is not mounted count no more. What a cut leaves the next Check repairs.
func ForgetProjects(ctx context.Context, device string, run Runner) error {
	if err := run(ctx, nil, "tune2fs", "-E", "force_fsck", device); err != nil {
		return err
	}
	err := run(ctx, nil, "tune2fs", "-O", "^quota", device)
	return errors.Join(err, Repair(ctx, device, run))
}

// Repair has e2fsck look at all of a file system that is not mounted, and repair what it can without a question.
func Repair(ctx context.Context, device string, run Runner) error {
	return repaired(run(ctx, nil, "e2fsck", "-f", "-p", device))
}

// repaired is nil where e2fsck has put everything right.
func repaired(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() < 4 { // e2fsck(8): 1 and 2 mean that everything was put right.
		return nil
	}
	if err != nil {
		return fmt.Errorf("e2fsck could not repair it: %w", err)
	}
	return nil
}
