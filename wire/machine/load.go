package machine

// Load is what the machine did in an interval (verb top; each part of the result is one).
type Load struct {
	// At is the time of its end, in Unix milliseconds, and Seconds its length.
	At      int64   `json:"at"`
	Seconds float64 `json:"seconds"`
	// Uptime is in seconds.
	Uptime float64 `json:"uptime"`
	CPU    CPU     `json:"cpu"`
	// Average are the load averages over 1, 5 and 15 minutes.
	Average [3]float64 `json:"average"`
	Memory  Memory     `json:"memory"`
	// Pressure is of cpu, io and memory; a kernel without PSI leaves it out.
	Pressure map[string]Pressure `json:"pressure,omitempty"`
	Disks    []DiskRate          `json:"disks,omitempty"`
	Network  []LinkRate          `json:"network,omitempty"`
	// Units and Processes are those that used most, CPU first and then memory; left out of a summary.
	Units     []UnitLoad `json:"units,omitempty"`
	Processes []Process  `json:"processes,omitempty"`
	// Tasks is how many processes there are, and Running, Blocked and Zombies how many of them run, wait for a disk
	// (state D), or have ended and are not cleared away. A summary does not count the last two.
	Tasks   int `json:"tasks"`
	Running int `json:"running"`
	Blocked int `json:"blocked"`
	Zombies int `json:"zombies"`
}

// CPU is shares of the time of all processors, in percent: their sum is at most 100.
type CPU struct {
	Processors int     `json:"processors"`
	User       float64 `json:"user"`
	System     float64 `json:"system"`
	// Wait is idle time while a disk is waited for, Steal what another machine on the same host took.
	Wait  float64 `json:"wait"`
	Steal float64 `json:"steal"`
	Idle  float64 `json:"idle"`
}

// Memory is in bytes.
type Memory struct {
	Total     int64 `json:"total"`
	Available int64 `json:"available"`
	// Cached is what files take, without memory that is only called a file.
	Cached   int64 `json:"cached"`
	Dirty    int64 `json:"dirty"`
	Swap     int64 `json:"swap"`
	SwapFree int64 `json:"swapFree"`
}

// Pressure is the share of time in percent, over the last 10 and 60 seconds, in which some or all tasks waited (Linux
// Documentation/accounting/psi.rst).
type Pressure struct {
	Some10 float64 `json:"some10"`
	Some60 float64 `json:"some60"`
	Full10 float64 `json:"full10"`
	Full60 float64 `json:"full60"`
}

// DiskRate is what one disk did, a second.
type DiskRate struct {
	Name string `json:"name"`
	// Read and Written are bytes, Reads and Writes requests.
	Read    float64 `json:"read"`
	Written float64 `json:"written"`
	Reads   float64 `json:"reads"`
	Writes  float64 `json:"writes"`
	// Busy is the share of time in percent in which it had a request.
	Busy float64 `json:"busy"`
}

// LinkRate is what went through an interface, a second.
type LinkRate struct {
	Name string `json:"name"`
	// Received and Sent are bytes.
	Received float64 `json:"received"`
	Sent     float64 `json:"sent"`
	// Lost are packets with errors or that were dropped, both ways.
	Lost float64 `json:"lost"`
}

// UnitLoad is what a unit of systemd used: its control group.
type UnitLoad struct {
	Name string `json:"name"`
	// CPU is in percent of one processor, Memory in bytes, with the files that the kernel keeps for it.
	CPU    float64 `json:"cpu"`
	Memory int64   `json:"memory"`
}

// Process is one process. Its arguments stay on the machine: they can hold secrets.
type Process struct {
	PID  int    `json:"pid"`
	Unit string `json:"unit,omitempty"`
	User string `json:"user"`
	// CPU is in percent of one processor, Memory what it has in memory (RSS), in bytes.
	CPU     float64 `json:"cpu"`
	Memory  int64   `json:"memory"`
	State   string  `json:"state"`
	Threads int     `json:"threads"`
	Name    string  `json:"name"`
}
