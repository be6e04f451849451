package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"spore/builder/cmd/operator"
	"spore/builder/netboot"
	"spore/builder/netboot/control"
	"spore/builder/netboot/roster"
	"spore/cluster/facts"
	"spore/pki/attest"
	"spore/pki/enroll"
)

// Print lists the machines that asked, and those that wait for approval.
func Print(w io.Writer, s netboot.State) {
	var text strings.Builder
	write(&text, s)
	_, _ = io.WriteString(w, control.Printable(text.String()))
}

func write(w io.Writer, s netboot.State) {
	if len(s.Machines) == 0 && len(s.Requests) == 0 {
		fmt.Fprintln(w, "no machine has asked yet")
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tADDRESS\tMACS\tSERIAL\tLAST HEARD\tDID")
	for _, m := range s.Machines {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(m.Node, "UNKNOWN"), cmp.Or(m.Address, "-"), strings.Join(m.MACs, " "), cmp.Or(m.Serial, "-"), m.Last.Format("15:04:05"), m.Did)
	}
	table.Flush()
	for _, m := range s.Machines {
		if m.Node == "" && len(m.MACs) > 0 {
			fmt.Fprintf(w, "%s: %s\n", m.MACs[0], m.Advice())
		}
	}
	if len(s.Requests) == 0 {
		return
	}
	fmt.Fprintln(table, "\nFINGERPRINT\tNODE\tADDRESS\tSTATE\tTPM")
	for _, r := range s.Requests {
		state := r.State
		switch {
		case r.Delivered && r.State == enroll.Denied:
			state = "denied, has its bundle"
		case r.Delivered:
			state = "has its bundle"
		case r.State == enroll.Given:
			state = "needs --replace"
		}
		tpm := "-"
		if r.Claim.TPM != nil {
			tpm = attest.Fingerprint(r.Claim.TPM.EK)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", r.Fingerprint, cmp.Or(r.Claim.Node, "UNKNOWN"), cmp.Or(r.Remote, "-"), state, tpm)
	}
	table.Flush()
	for _, r := range s.Requests {
		switch {
		case r.State == enroll.Given:
			fmt.Fprintf(w, "%s: %s\n", r.Fingerprint, enroll.GivenTo(r.Claim.Node, r.Holder, r.Since))
		case r.State == enroll.Waiting && r.Holder != "":
			fmt.Fprintf(w, "%s: %s\n", r.Fingerprint, enroll.Again(r.Claim.Node, r.Holder, r.Since))
		}
	}
}

// Refused says what a refusal came to.
func Refused(r enroll.Request) string {
	if r.Delivered {
		return r.Fingerprint + ": refused; it has got its bundle already, and keeps it"
	}
	return r.Fingerprint + ": refused"
}

// Bundle makes the bundle of a node of the image in the output folder, with the keys here or beside it. It is recorded: the
// node will have it.
func Bundle(keys operator.Folder, nodes *roster.Nodes, node, out string) ([]byte, error) {
	n, err := nodes.Node(node)
	if err != nil {
		return nil, err
	}
	made, none, err := keys.Bundles(&nodes.Cluster, []*facts.Node{n}, operator.Options{
		Now: time.Now(), Record: true, Near: []string{".", filepath.Dir(filepath.Clean(out))},
	})
	if err != nil {
		return nil, err
	}
	if len(made) == 0 {
		return nil, errors.New(none)
	}
	return made[0].Data, nil
}
