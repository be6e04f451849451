package reach

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"spore/wire/nodeapi"
)

// accessKind is in every file of access, and accessVersion the version of its form.
const (
	accessKind    = "node-access"
	accessVersion = 1
)

// maxAccess bounds the file, in bytes.
const maxAccess = 1 << 16

// Access is the right of a person to ask the nodes of a cluster: what `spore access` writes, as JSON.
type Access struct {
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	// Cluster is the cluster's id.
	Cluster string `json:"cluster"`
	// Person and Role are what nodes see in the certificate, and Ends is its end: said here for people.
	Person string       `json:"person"`
	Role   nodeapi.Role `json:"role"`
	Ends   time.Time    `json:"ends"`
	// Nodes are those that the certificate is limited to, and Serial is its serial number: said here for people, too.
	Nodes  []string `json:"nodes,omitempty"`
	Serial string   `json:"serial,omitempty"`
	// Certificate with its chain, Key and Authorities are PEM.
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	Authorities string `json:"authorities"`
}

// Encode is the content of the file.
func (a Access) Encode() ([]byte, error) {
	a.Kind, a.Version = accessKind, accessVersion
	data, err := json.MarshalIndent(a, "", "  ")
	return append(data, '\n'), err
}

// ParseAccess reads a file of access. What it says of person, role, end and nodes is what the certificate says.
func ParseAccess(data []byte) (Access, error) {
	var a Access
	if len(data) > maxAccess {
		return a, fmt.Errorf("it has more than %d bytes", maxAccess)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return a, fmt.Errorf("it is not a file that `spore access` writes: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return a, errors.New("it is not a file that `spore access` writes: there is data after its end")
	}
	if a.Kind != accessKind || a.Version != accessVersion {
		return a, fmt.Errorf("it is a %.32q of version %d, instead of a %s of version %d; make it with `spore access`", a.Kind, a.Version, accessKind, accessVersion)
	}
	pair, err := tls.X509KeyPair([]byte(a.Certificate), []byte(a.Key))
	if err != nil {
		return a, fmt.Errorf("its certificate: %w", err)
	}
	leaf := pair.Leaf
	a.Person, a.Role, a.Ends = leaf.Subject.CommonName, "", leaf.NotAfter.UTC()
	a.Serial = nodeapi.Serial(leaf.SerialNumber)
	if a.Nodes, err = nodeapi.NodesOf(leaf); err != nil {
		return a, err
	}
	for _, role := range nodeapi.Lookers() {
		if slices.Contains(leaf.Subject.Organization, string(role)) {
			a.Role = role
		}
	}
	if a.Role == "" {
		return a, fmt.Errorf("its certificate belongs to %.64q of %.64q, and not to an operator", a.Person, strings.Join(leaf.Subject.Organization, ", "))
	}
	return a, nil
}

// identity is what the nodes are shown.
func (a Access) identity() nodeapi.Identity {
	return nodeapi.Identity{Certificate: []byte(a.Certificate), Key: []byte(a.Key), Authorities: []byte(a.Authorities)}
}
