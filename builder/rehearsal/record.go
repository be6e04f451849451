package rehearsal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/storage/atomicfile"
)

const (
	recordName = "machine.json"
	// endLimit is how long QEMU may take to end in order.
	endLimit = 10 * time.Second
	bootID   = "/proc/sys/kernel/random/boot_id"
)

// Record says which process is a machine. A process number alone is soon another's: with the time at which it began,
// counted from a start of this host, it is nobody else's.
type Record struct {
	Node string `json:"node"`
	// PID is QEMU's, Started its begin in clock ticks since the host's start (proc(5), field 22 of /proc/PID/stat), and
	// Boot tells which start that was.
	PID     int    `json:"pid"`
	Started uint64 `json:"started"`
	Boot    string `json:"boot"`
	// Forwards are the ports that lead to it.
	Forwards []Forward `json:"forwards,omitempty"`
}

// Forward is a port of this host's loopback that leads to a node.
type Forward struct {
	Host  int    `json:"host"`
	Guest string `json:"guest"`
	// Protocol is tcp or udp.
	Protocol string `json:"protocol"`
}

// Record keeps which process the machine is.
func (s *State) Record(r Record) error {
	var err error
	if r.Started, err = started(r.PID); err != nil {
		return err
	}
	if r.Boot, err = thisBoot(); err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	// Whoever reads it sees all of it or the one before.
	return atomicfile.Replace(filepath.Join(s.Dir, recordName), append(data, '\n'), 0o600, atomicfile.Unsynced)
}

// Ended forgets which process the machine was.
func (s *State) Ended() error {
	err := os.Remove(filepath.Join(s.Dir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// read returns the record of a node, false when there is none that can be read.
func (f Folder) read(node string) (Record, bool) {
	data, err := os.ReadFile(filepath.Join(f.Dir(node), recordName))
	if err != nil {
		return Record{}, false
	}
	return parseRecord(data)
}

func parseRecord(data []byte) (Record, bool) {
	var r Record
	d := json.NewDecoder(bytes.NewReader(data))
	// A number below 2 would be init, or a group of processes.
	if err := d.Decode(&r); err != nil || r.PID < 2 || r.Boot == "" {
		return Record{}, false
	}
	return r, true
}

// Kill ends the machine of a node, whoever started it, as a power cut does, and waits until nobody has it any more. It
// reports false when it did not run. A process that is not the one of the record is left alone.
func (f Folder) Kill(ctx context.Context, node string) (bool, error) {
	r, ok := f.read(node)
	if !ok {
		return false, nil
	}
	fd, err := unix.PidfdOpen(r.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("process %d of %s: %w", r.PID, node, err)
	}
	defer unix.Close(fd)
	// The descriptor stays that of one process, so that the question is answered for the one that is signalled.
	if !r.running() {
		return false, nil
	}
	if err := end(ctx, fd); err != nil {
		return false, fmt.Errorf("end process %d of %s: %w", r.PID, node, err)
	}
	return true, f.free(ctx, node)
}

// Forwards are the ports that lead to a node's machine, whoever started it; none when it does not run.
func (f Folder) Forwards(node string) []Forward {
	r, ok := f.read(node)
	if !ok || !r.running() {
		return nil
	}
	return r.Forwards
}

// running tells whether the process of the record lives.
func (r Record) running() bool {
	boot, err := thisBoot()
	if err != nil || boot != r.Boot {
		return false
	}
	began, err := started(r.PID)
	return err == nil && began == r.Started
}

// end asks a process to end, and ends it when it does not.
func end(ctx context.Context, pidfd int) error {
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := unix.PidfdSendSignal(pidfd, signal, nil, 0); errors.Is(err, unix.ESRCH) {
			return nil
		} else if err != nil {
			return err
		}
		for limit := time.Now().Add(endLimit); time.Now().Before(limit); {
			// pidfd_open(2): it can be read when the process has ended.
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(poll.Milliseconds()))
			if n > 0 {
				return nil
			}
			if err != nil && !errors.Is(err, unix.EINTR) {
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	return errors.New("it does not end")
}

// free waits until no process has the machine.
func (f Folder) free(ctx context.Context, node string) error {
	for limit := time.Now().Add(endLimit); ; {
		s, err := f.Hold(node)
		if err == nil {
			return s.Close()
		}
		if time.Now().After(limit) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(poll):
		}
	}
}

// started is when a process began. One that has ended and that nobody has waited for began never.
func started(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStarted(string(data))
}

// parseStarted takes field 22 of /proc/PID/stat; the name before field 3 may hold spaces and parentheses.
func parseStarted(stat string) (uint64, error) {
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 20 {
		return 0, errors.New("the state of the process cannot be read")
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, errors.New("the process has ended")
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func thisBoot() (string, error) {
	data, err := os.ReadFile(bootID)
	return strings.TrimSpace(string(data)), err
}
