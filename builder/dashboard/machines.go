package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"spore/builder/netboot"
	"spore/pki/attest"
	"spore/pki/enroll"
)

const machinesPath = "/machines"

// Machines is what a `spore serve` says of machines that boot from the network.
type Machines struct {
	// Out is the folder it serves.
	Out   string
	State netboot.State
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

func askMachines(ctx context.Context, w *Watcher, _ any) (any, error) {
	m, err := w.asker.Machines(ctx)
	if err != nil {
		return nil, err
	}
	return bootsOf(m), nil
}

func bootsOf(m Machines) *boots {
	b := &boots{Out: m.Out}
	for _, r := range m.State.Requests[:min(len(m.State.Requests), maxRows)] {
		row := request{Fingerprint: r.Fingerprint, Node: cmp.Or(r.Claim.Node, "unknown"), Remote: r.Remote, State: r.State, TPM: "–"}
		if r.Claim.TPM != nil {
			row.TPM = attest.Fingerprint(r.Claim.TPM.EK)
		}
		switch {
		case r.Delivered:
			row.State = "has its bundle"
		case r.State == enroll.Waiting:
			row.Level, row.Do = Warning, "spore approve "+word(m.Out)+" "+word(r.Fingerprint)
		case r.State == enroll.Unknown:
			row.Level = Warning
		}
		b.Requests = append(b.Requests, row)
	}
	slices.SortStableFunc(b.Requests, func(a, b request) int { return cmp.Compare(b.Level, a.Level) })
	list, more := cut(m.State.Machines)
	b.More = more + max(len(m.State.Requests)-maxRows, 0)
	for _, r := range list {
		row := booted{
			Node: cmp.Or(r.Node, "unknown"), Address: cmp.Or(r.Address, "–"), MACs: strings.Join(r.MACs, " "), Serial: cmp.Or(r.Serial, "–"),
			Last: r.Last.UTC().Format("2006-01-02 15:04:05 UTC"), Did: r.Did,
		}
		if r.Node == "" {
			row.Level, row.Advice = Warning, r.Advice()
		}
		b.Machines = append(b.Machines, row)
	}
	return b
}
