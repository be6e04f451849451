// Package status is the line that says how the machine is: one JSON object that begins with {"spore":1, and that tests
// and operators read from the console, the journal or `spore-agent status`.
package status

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/activate"
	"spore/agent/arp"
	"spore/agent/clock"
	"spore/agent/datadisk"
	"spore/agent/delivery"
	"spore/agent/firmware"
	"spore/agent/paths"
	"spore/agent/pull/looked"
	"spore/agent/slot"
	"spore/agent/state"
	"spore/agent/watchdog"
	"spore/storage/atomicfile"
	"spore/wire/shell"
)

// Line is the status line. Its fields are a contract; more may come.
type Line struct {
	// Spore is the version of the form, and the first key.
	Spore   int      `json:"spore"`
	Cluster string   `json:"cluster"`
	Node    string   `json:"node"`
	Matched *Matched `json:"matched,omitempty"`
	// NoCloud is what a hypervisor said in the way of cloud-init; there is none where it said nothing.
	NoCloud *NoCloud `json:"nocloud,omitempty"`
	// Roles are those whose targets were started, Held those that were not.
	Roles []string        `json:"roles"`
	Held  []activate.Held `json:"held,omitempty"`
	// Services holds the active state of the roles' programs by unit; that of a oneshot that did its work is active.
	Services map[string]string `json:"services,omitempty"`
	// Failed lists units that failed.
	Failed []string    `json:"failed"`
	State  *state.Info `json:"state,omitempty"`
	// Disks says what became of the disks that the node gives to services.
	Disks []datadisk.Info `json:"disks,omitempty"`
	// Waiting says for which other nodes the start of a service waits.
	Waiting map[string]string `json:"waiting,omitempty"`
	// Bundle says where the node's secrets come from; there is none on a node that was never given any.
	Bundle *delivery.Info `json:"bundle,omitempty"`
	// Configuration says which one runs, and what became of one that was pushed; there is none where stage1 did not run.
	Configuration *slot.Info `json:"configuration,omitempty"`
	// Updates is what came of the node's last look for updates; there is none where it takes nothing by itself.
	Updates *looked.Last `json:"updates,omitempty"`
	// BuildTime is that of the image that runs, in Unix seconds.
	BuildTime int64 `json:"buildTime,omitempty"`
	// Versions are those of its programs that keep data (services.DataVersions), once the machine is up.
	Versions map[string]string `json:"versions,omitempty"`
	// Firmware says how the machine was started; there is none on one without UEFI.
	Firmware *firmware.Info `json:"firmware,omitempty"`
	// Watchdog is the hardware watchdog; there is none where the kernel has no driver of one.
	Watchdog *watchdog.Info `json:"watchdog,omitempty"`
	// Shells are the emergency shells that were open on the node and that nobody has acknowledged, the oldest first.
	Shells []shell.Session `json:"shells,omitempty"`
	// Clock says who keeps the clock.
	Clock *clock.State `json:"clock,omitempty"`
	// System is what `systemctl is-system-running` says.
	System    string     `json:"system"`
	Conflicts []arp.Used `json:"conflicts,omitempty"`
	// Problem says why the machine does not match any node, and Advice what to add to which file.
	Problem string `json:"problem,omitempty"`
	Advice  string `json:"advice,omitempty"`
	// Seen is what the machine could be known by; only where there is a problem.
	Seen any `json:"seen,omitempty"`
	// BootDisk is the serial number of the disk that the machine was booted from, or its device node.
	BootDisk  string `json:"bootDisk,omitempty"`
	MachineID string `json:"machineID,omitempty"`
	// BootID is the kernel's name for this boot.
	BootID    string   `json:"bootID,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	// Times holds seconds since boot by step: kernel, stage1, detect, network, activated, running.
	Times map[string]float64 `json:"times"`
	// CPU is what the agent's processes used so far, in milliseconds; Spawn what was spent in them before they began, on
	// systemd's sandbox, exec and the start of the runtime.
	CPU   float64 `json:"cpu"`
	Spawn float64 `json:"cpuSpawn"`
}

// Matched says why the machine is the node.
type Matched struct {
	By    string `json:"by"`
	Value string `json:"value"`
	Phase int    `json:"phase"`
}

// NoCloud says where facts of a hypervisor came from, and what of them was left.
type NoCloud struct {
	// From names the places: volumes, the serial number, credentials.
	From       []string `json:"from,omitempty"`
	InstanceID string   `json:"instanceID,omitempty"`
	// NotTaken names the keys that nobody on a node takes, such as "user-data: packages".
	NotTaken []string `json:"notTaken,omitempty"`
	// Problem says why nothing was taken.
	Problem string `json:"problem,omitempty"`
}

// String is the line, without newline.
func (l Line) String() string {
	data, err := json.Marshal(l)
	if err != nil {
		return fmt.Sprintf(`{"spore":1,"problem":%q}`, "internal error: "+err.Error())
	}
	return string(data)
}

// Same tells whether a line says the same as another, but for times and the agent's own cost.
func (l Line) Same(other Line) bool {
	l.CPU, other.CPU, l.Spawn, other.Spawn, l.Times, other.Times = 0, 0, 0, 0, nil, nil
	return l.String() == other.String()
}

// Step is the cost of one step of the boot.
type Step struct {
	// At is seconds since boot; CPU and Spawn are milliseconds of the process that did it, as in Line.
	At    float64 `json:"at"`
	CPU   float64 `json:"cpu"`
	Spawn float64 `json:"cpuSpawn"`
}

// Record writes a step, once for each process that does one.
func Record(root paths.Root, name string, s Step) error {
	return atomicfile.WriteJSON(root.At(paths.Times+"/"+name), s)
}

// Steps reads all steps.
func Steps(root paths.Root) map[string]Step {
	out := map[string]Step{}
	entries, err := os.ReadDir(root.At(paths.Times))
	if err != nil {
		return out
	}
	for _, e := range entries {
		var s Step
		if strings.HasPrefix(e.Name(), ".") || atomicfile.ReadJSON(root.At(paths.Times+"/"+e.Name()), &s) != nil {
			continue
		}
		out[e.Name()] = s
	}
	return out
}

// SinceBoot is CLOCK_BOOTTIME in seconds.
func SinceBoot() float64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return round(time.Duration(ts.Nano()).Seconds())
}

// UsedCPU is the CPU time of this process and the children that it waited for, in milliseconds; called first thing in
// main, it is what was spent before.
func UsedCPU() float64 {
	var total time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if syscall.Getrusage(who, &r) == nil {
			total += time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
	}
	return round(float64(total.Microseconds()) / 1000)
}

// Milliseconds rounds to microseconds.
func Milliseconds(f float64) float64 { return round(f) }

func round(f float64) float64 { return float64(int64(f*1000+0.5)) / 1000 }
