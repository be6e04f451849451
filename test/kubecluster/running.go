package kubecluster

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of CPU time in /proc (proc_pid_stat(5)); Linux has no other on the machines that we know.
const tick = time.Second / 100

// Signal sends a signal to all programs that run.
func (r *Running) Signal(s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cmd := range r.commands {
		_ = cmd.Process.Signal(s) // an error means that it has ended
	}
}

// CPU is what the programs that run have used so far.
func (r *Running) CPU() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var sum time.Duration
	for _, cmd := range r.commands {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil {
			continue // it has ended
		}
		// The fields after the name, which may have spaces in it: utime and stime are the 14th and 15th of all.
		_, rest, _ := strings.Cut(string(data), ") ")
		fields := strings.Fields(rest)
		for _, f := range fields[11:13] {
			ticks, _ := strconv.ParseInt(f, 10, 64) // a number, by the kernel's promise
			sum += time.Duration(ticks) * tick
		}
	}
	return sum
}
