package vm

import (
	"context"
	"encoding/json"
	"strings"
)

// statusPrefix begins the status line of spore-agent.
const statusPrefix = `{"spore":1,`

// Status is the agent's status line as a test reads it. It is a second reading of the contract, not the agent's type.
type Status struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	Matched struct {
		By    string `json:"by"`
		Value string `json:"value"`
		Phase int    `json:"phase"`
	} `json:"matched"`
	// NoCloud is what the machine took from a volume, and what it did not.
	NoCloud struct {
		From     []string `json:"from"`
		NotTaken []string `json:"notTaken"`
		Problem  string   `json:"problem"`
	} `json:"nocloud"`
	Roles []string `json:"roles"`
	Held  []struct {
		Role   string `json:"role"`
		Reason string `json:"reason"`
	} `json:"held"`
	Failed []string `json:"failed"`
	// Waiting says for which other nodes the start of a service waits.
	Waiting map[string]string `json:"waiting"`
	// Services holds the active state of the roles' programs by unit.
	Services map[string]string `json:"services"`
	State    struct {
		Kind   string `json:"kind"`
		Device string `json:"device"`
		// Disk is the serial number of the partition's disk.
		Disk    string `json:"disk"`
		Warning string `json:"warning"`
		Refused bool   `json:"refused"`
	} `json:"state"`
	// Bundle is the node's secret bundle; its serial is 0 when there is none that could be opened.
	Bundle struct {
		Serial uint64 `json:"serial"`
		// From is state, firmware, medium or network; Sealed is tpm2 or host, where a copy is kept.
		From    string `json:"from"`
		Sealed  string `json:"sealed"`
		Problem string `json:"problem"`
		// Fingerprint is that of the machine's key while the operator is to approve it.
		Fingerprint string `json:"fingerprint"`
	} `json:"bundle"`
	// Clock says whether a time server keeps the clock, and which; Wrong that it could not be right at the start.
	Clock struct {
		Synchronized bool   `json:"synchronized"`
		From         string `json:"from"`
		Wrong        bool   `json:"wrong"`
		Problem      string `json:"problem"`
	} `json:"clock"`
	// Watchdog is the hardware watchdog of the machine: its driver's name for it, how long it waits, and whether its
	// timer runs.
	Watchdog *struct {
		Identity string `json:"identity"`
		Seconds  int    `json:"seconds"`
		Held     bool   `json:"held"`
		HasReset bool   `json:"hasReset"`
	} `json:"watchdog"`
	System string `json:"system"`
	// Conflicts are addresses that other machines have.
	Conflicts []struct {
		IP   string `json:"ip"`
		MAC  string `json:"mac"`
		Card string `json:"card"`
	} `json:"conflicts"`
	Problem   string          `json:"problem"`
	Advice    string          `json:"advice"`
	Seen      json.RawMessage `json:"seen"`
	BootDisk  string          `json:"bootDisk"`
	MachineID string          `json:"machineID"`
	Addresses []string        `json:"addresses"`
	// Times are seconds since the kernel's start.
	Times map[string]float64 `json:"times"`
	// CPU is the agent's own, in milliseconds.
	CPU float64 `json:"cpu"`
	// Raw is the line, from its first brace to its last.
	Raw string `json:"-"`
}

// ParseStatus finds a status line in a line of the console. Kernel messages can cut into one: such a line is none. One
// that follows it is not part of it.
func ParseStatus(line string) (Status, bool) {
	i := strings.Index(line, statusPrefix)
	if i < 0 {
		return Status{}, false
	}
	var s Status
	d := json.NewDecoder(strings.NewReader(line[i:]))
	if err := d.Decode(&s); err != nil {
		return Status{}, false
	}
	s.Raw = line[i:][:d.InputOffset()]
	return s, true
}

// AwaitStatus returns the first status line from the mark on that ok accepts, with its line and the mark after it.
func (c *Console) AwaitStatus(ctx context.Context, from int, what string, ok func(Status) bool) (Status, Line, int, error) {
	var found Status
	line, mark, err := c.Await(ctx, from, what, func(l Line) bool {
		s, is := ParseStatus(l.Text)
		if is && ok(s) {
			found = s
			return true
		}
		return false
	})
	return found, line, mark, err
}

// Statuses returns every status line from the mark on.
func (c *Console) Statuses(from int) []Status {
	var out []Status
	for _, l := range c.Lines(from) {
		if s, ok := ParseStatus(l.Text); ok {
			out = append(out, s)
		}
	}
	return out
}
