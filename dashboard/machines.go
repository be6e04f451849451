package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
)

const machinesPath = "/machines"

// Machines is what a `spore serve` says of machines that boot from the network.
type Machines struct {
	// Out is the folder it serves.
	Out string
	// Asks are the machines that have asked for the bundle of a node, and Booted those that were heard of.
	Asks   []Claim
	Booted []Booted
}

// Claim is a machine that has asked for the bundle of a node. Its words are its own.
type Claim struct {
	Fingerprint, Node, Remote string
	// State is how far it is, in words, and TPM the fingerprint of its TPM; empty without one.
	State, TPM string
	// Waits says that a person has to let it in, Unknown that it is not known yet, and Delivered that it has its bundle.
	Waits, Unknown, Delivered bool
}

// Booted is a machine that was heard of.
type Booted struct {
	// Node is which it is; empty where it is none, and then Advice says what to do.
	Node, Address, Serial, Did, Advice string
	MACs                               []string
	Last                               time.Time
}

// boots is the page of machines.
type boots struct {
	Out      string
	Requests []request
	Machines []booted
	More     int
}

type request struct {
	Fingerprint, Node, Remote, State, TPM string
	Level                                 Level
	// Do is the command that lets it in; empty where it does not wait.
	Do string
}

type booted struct {
	Node, Address, MACs, Serial, Last, Did, Advice string
	Level                                          Level
}

func askMachines(ctx context.Context, w *inquiry, _ any) (any, error) {
	m, err := w.asker.Machines(ctx)
	if err != nil {
		return nil, err
	}
	return bootsOf(m), nil
}

func bootsOf(m Machines) *boots {
	b := &boots{Out: m.Out}
	for _, r := range m.Asks[:min(len(m.Asks), maxRows)] {
		row := request{Fingerprint: r.Fingerprint, Node: cmp.Or(r.Node, "unknown"), Remote: r.Remote, State: r.State, TPM: cmp.Or(r.TPM, "–")}
		switch {
		case r.Delivered:
			row.State = "has its bundle"
		case r.Waits:
			row.Level, row.Do = Warning, "spore approve "+word(m.Out)+" "+word(r.Fingerprint)
		case r.Unknown:
			row.Level = Warning
		}
		b.Requests = append(b.Requests, row)
	}
	slices.SortStableFunc(b.Requests, func(a, b request) int { return cmp.Compare(b.Level, a.Level) })
	list, more := cut(m.Booted)
	b.More = more + max(len(m.Asks)-maxRows, 0)
	for _, r := range list {
		row := booted{
			Node: cmp.Or(r.Node, "unknown"), Address: cmp.Or(r.Address, "–"), MACs: strings.Join(r.MACs, " "), Serial: cmp.Or(r.Serial, "–"),
			Last: r.Last.UTC().Format("2006-01-02 15:04:05 UTC"), Did: r.Did,
		}
		if r.Node == "" {
			row.Level, row.Advice = Warning, r.Advice
		}
		b.Machines = append(b.Machines, row)
	}
	return b
}
