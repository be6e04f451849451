package dashboard

import (
	"context"

	"spore/builder/netboot"
	"spore/builder/netboot/control"
	"spore/cluster"
	"spore/cluster/regular"
	"spore/dashboard"
	"spore/pki/attest"
	"spore/pki/enroll"
)

// local has the questions to this machine: its folder of the configuration, and its spore serve.
func local(a *dashboard.Asker, dir, out string) {
	a.Files = func() (map[string][]byte, error) {
		config, report := cluster.Check(regular.Folder(dir), cluster.Options{})
		if err := report.Under(dir).Err(); err != nil {
			return nil, err
		}
		return config.Source(), nil
	}
	a.Machines = func(ctx context.Context) (dashboard.Machines, error) {
		state, err := control.State(ctx, out)
		return machines(out, state), err
	}
}

// machines is what the page shows of a spore serve.
func machines(out string, s netboot.State) dashboard.Machines {
	m := dashboard.Machines{Out: out}
	for _, r := range s.Requests {
		c := dashboard.Claim{
			Fingerprint: r.Fingerprint, Node: r.Claim.Node, Remote: r.Remote, State: r.State,
			Waits: r.State == enroll.Waiting, Unknown: r.State == enroll.Unknown, Delivered: r.Delivered,
		}
		if r.Claim.TPM != nil {
			c.TPM = attest.Fingerprint(r.Claim.TPM.EK)
		}
		m.Asks = append(m.Asks, c)
	}
	for _, r := range s.Machines {
		m.Booted = append(m.Booted, dashboard.Booted{
			Node: r.Node, Address: r.Address, Serial: r.Serial, Did: r.Did, Advice: r.Advice(), MACs: r.MACs, Last: r.Last,
		})
	}
	return m
}
