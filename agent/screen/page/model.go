package page

import (
	"time"

	"spore/agent/choice/call"
	"spore/wire/machine"
)

// Status is what the pages show of the status line (package status, whose fields are a contract). It is read here by a
// type of its own: that one stands on what all services are, and would make a program of twice the size.
type Status struct {
	Cluster       string            `json:"cluster"`
	Node          string            `json:"node"`
	Matched       *Matched          `json:"matched"`
	Roles         []string          `json:"roles"`
	Held          []Held            `json:"held"`
	Services      map[string]string `json:"services"`
	Failed        []string          `json:"failed"`
	State         *State            `json:"state"`
	Disks         []DataDisk        `json:"disks"`
	Waiting       map[string]string `json:"waiting"`
	Bundle        *Bundle           `json:"bundle"`
	Configuration *Configuration    `json:"configuration"`
	Updates       *Updates          `json:"updates"`
	BuildTime     int64             `json:"buildTime"`
	Versions      map[string]string `json:"versions"`
	Firmware      *Firmware         `json:"firmware"`
	Watchdog      *Watchdog         `json:"watchdog"`
	Clock         *Clock            `json:"clock"`
	System        string            `json:"system"`
	Conflicts     []Conflict        `json:"conflicts"`
	Problem       string            `json:"problem"`
	Advice        string            `json:"advice"`
	Seen          *Seen             `json:"seen"`
	BootDisk      string            `json:"bootDisk"`
	NoCloud       *NoCloud          `json:"nocloud"`
	Addresses     []string          `json:"addresses"`
}

// Parts of Status.
type (
	// Matched says why the machine is the node.
	Matched struct {
		By    string `json:"by"`
		Value string `json:"value"`
	}
	// Held is a role that was not started.
	Held struct {
		Role   string `json:"role"`
		Reason string `json:"reason"`
	}
	// NoCloud says what of a hypervisor's facts was not taken, and why.
	NoCloud struct {
		NotTaken []string `json:"notTaken"`
		Problem  string   `json:"problem"`
	}
	// State says what /var is.
	State struct {
		Kind       string      `json:"kind"`
		Device     string      `json:"device"`
		Disk       string      `json:"disk"`
		Encryption *Encryption `json:"encryption"`
		Warning    string      `json:"warning"`
	}
	// Encryption says how the state was opened.
	Encryption struct {
		Opened string `json:"opened"`
		Next   string `json:"next"`
		Policy string `json:"policy"`
	}
	// DataDisk is a disk that the node gives to a service.
	DataDisk struct {
		Use      string `json:"use"`
		Selector string `json:"selector"`
		Disk     string `json:"disk"`
		Serial   string `json:"serial"`
		Problem  string `json:"problem"`
	}
	// Bundle says where the node's secrets come from.
	Bundle struct {
		Serial      uint64 `json:"serial"`
		From        string `json:"from"`
		Sealed      string `json:"sealed"`
		Problem     string `json:"problem"`
		Forgets     string `json:"forgets"`
		Fingerprint string `json:"fingerprint"`
	}
	// Configuration says which one runs.
	Configuration struct {
		RootHash    string `json:"rootHash"`
		ClusterHash string `json:"clusterHash"`
		Serial      uint64 `json:"serial"`
		Trial       bool   `json:"trial"`
		Staged      string `json:"staged"`
		StagedRoot  string `json:"stagedRoot"`
		Live        bool   `json:"live"`
		Loader      string `json:"loader"`
		Problem     string `json:"problem"`
	}
	// Updates is what came of the last look for updates.
	Updates struct {
		At      time.Time `json:"at"`
		From    string    `json:"from"`
		Serial  uint64    `json:"serial"`
		Result  string    `json:"result"`
		Problem string    `json:"problem"`
	}
	// Firmware says how the machine was started.
	Firmware struct {
		SecureBoot bool   `json:"secureBoot"`
		SetupMode  bool   `json:"setupMode"`
		Lockdown   string `json:"lockdown"`
	}
	// Watchdog is that of the hardware.
	Watchdog struct {
		Identity string `json:"identity"`
		Seconds  int    `json:"seconds"`
		Held     bool   `json:"held"`
	}
	// Clock says who keeps the clock.
	Clock struct {
		Synchronized bool   `json:"synchronized"`
		From         string `json:"from"`
		By           string `json:"by"`
		Wrong        bool   `json:"wrong"`
		Problem      string `json:"problem"`
	}
	// Conflict is an address that another machine has.
	Conflict struct {
		IP  string `json:"ip"`
		MAC string `json:"mac"`
	}
	// Seen is what a machine could be known by that does not match any node.
	Seen struct {
		MACs      []string `json:"macs"`
		IPs       []string `json:"ips"`
		Hostnames []string `json:"hostnames"`
		Serial    string   `json:"serial"`
		UUID      string   `json:"uuid"`
	}
)

// Model is all that pages are made of. What is nil or empty was not asked for yet, or is missing for the reason that
// stands beside it.
type Model struct {
	// Status is nil while there is no status line, and StatusProblem says why.
	Status        *Status
	StatusProblem string
	// Question is what somebody is asked for; empty where nobody is. Typed is how many characters of the answer were
	// typed: the model does not have them. Answered says what came of the last answer.
	Question string
	Typed    int
	Answered string
	// Now is the machine's time.
	Now time.Time
	// Asked says that what a page shows besides the status is on its way.
	Asked bool

	Journal        []string
	JournalProblem string

	Network        *machine.Network
	NetworkProblem string
	// Cards are the interfaces as the kernel lists them: all there is on a machine that does not match any node.
	Cards   []Card
	Answers []Answer

	Disks        []machine.Disk
	DisksProblem string

	Secrets        *machine.Bundle
	SecretsProblem string

	Hardware *Hardware

	// Choice is which nodes the machine could be, and Choosing how far the person is with choosing one.
	Choice        *call.View
	ChoiceProblem string
	Choosing      Choosing
}

// Card is a network interface.
type Card struct {
	Name, MAC string
	// Carrier tells that something is at the other end.
	Carrier   bool
	Addresses []string
}

// Answer is what came of a question to another machine.
type Answer struct {
	// Of says who was asked: gateway, DNS; To is the address.
	Of, To string
	// Text is the answer in words; Problem says why there was none.
	Text, Problem string
}

// Hardware is what the machine is made of.
type Hardware struct {
	// Rows are a name and a value each, in the order of the page.
	Rows [][2]string
}
