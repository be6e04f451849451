// Package folder reads what commands that make images are given: the configuration folder, and the public half of the
// cluster's keys.
package folder

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"spore/builder/accounts"
	"spore/cluster"
	"spore/cluster/check"
	"spore/cluster/regular"
	"spore/pki/vault"
)

// ErrConfig is the error for a configuration with errors, which were printed.
var ErrConfig = errors.New("the configuration has errors")

// Load reads and validates the configuration in dir, with the public half of the keys in the folder keys; empty is DIR.pki
// where it exists. Warnings, notes and errors of the configuration are printed; with strict, warnings are errors.
func Load(w io.Writer, dir, keys string, strict bool) (*cluster.Config, error) {
	config, report, err := Check(dir, strict)
	if err != nil {
		return nil, err
	}
	for _, p := range report.Under(dir) {
		fmt.Fprintln(w, p)
	}
	if report.Failed() {
		return nil, ErrConfig
	}
	config.Public, err = readKeys(dir, keys, config.Cluster.ID)
	return config, err
}

// Check reads and validates the configuration in dir, accounts.yaml too; with strict, warnings are errors.
func Check(dir string, strict bool) (*cluster.Config, check.Report, error) {
	config, report := cluster.Check(regular.Folder(dir), cluster.Options{Strict: strict})
	_, more, err := Accounts(config)
	if err != nil {
		return nil, nil, err
	}
	return config, append(report, more...).Sorted(), nil
}

// Accounts are the ids of accounts.yaml, nil without that file. The report says what is wrong with it.
func Accounts(c *cluster.Config) (*accounts.Locked, check.Report, error) {
	if c.Accounts == nil {
		return nil, nil, nil
	}
	fixed, err := accounts.Fixed()
	if err != nil {
		return nil, nil, err
	}
	locked, report := accounts.ParseLocked(c.Accounts, fixed)
	return locked, report, nil
}

// readKeys reads the public half of the cluster's keys. A folder that was not named need not exist.
func readKeys(config, dir, clusterID string) (cluster.Public, error) {
	named := dir != ""
	if !named {
		dir = strings.TrimRight(config, "/") + ".pki"
	}
	public, err := vault.ReadPublic(dir)
	if errors.Is(err, vault.ErrNone) && !named {
		return cluster.Public{}, nil
	}
	if err != nil {
		return cluster.Public{}, fmt.Errorf("read the cluster's keys: %w", err)
	}
	if !strings.EqualFold(public.Cluster, clusterID) {
		return cluster.Public{}, fmt.Errorf("the keys in %s are of the cluster with the id %s, and the configuration has %s", dir, public.Cluster, clusterID)
	}
	keys, err := public.SigningKeys()
	if err != nil {
		return cluster.Public{}, err
	}
	out := cluster.Public{Files: public.Files()}
	for _, k := range keys {
		out.SigningKeys = append(out.SigningKeys, base64.StdEncoding.EncodeToString(k))
	}
	return out, nil
}
