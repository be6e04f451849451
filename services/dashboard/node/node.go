// Package node renders what the program of the service dashboard is told.
package node

import (
	"errors"
	"fmt"

	"spore/services/dashboard"
	"spore/services/dashboard/serving"
	"spore/services/rendering"
)

// Renderings are how the configuration of each program is rendered.
var Renderings = map[string]rendering.Func{dashboard.Program: render}

func render(in rendering.Input) (map[string]rendering.File, error) {
	s := dashboard.Of(in.Cluster.Services)
	if s == nil {
		return nil, errors.New("the cluster has no dashboard settings; add services/dashboard.yaml")
	}
	pair := func(certificate, key string) (serving.Pair, error) {
		for _, ref := range []string{certificate, key} {
			if _, err := in.Secret(ref); err != nil {
				return serving.Pair{}, fmt.Errorf("what the pages are served with: %w", err)
			}
		}
		return serving.Pair{Certificate: in.SecretPath(certificate), Key: in.SecretPath(key)}, nil
	}
	c := serving.Config{Node: in.Node.Name, Listen: fmt.Sprintf(":%d", s.ListenPort())}
	var err error
	if c.Server, err = pair(dashboard.ServerCertificate, dashboard.ServerKey); err != nil {
		return nil, err
	}
	if c.Reader, err = pair(dashboard.ReaderCertificate, dashboard.ReaderKey); err != nil {
		return nil, err
	}
	file, err := rendering.JSON(c, 0o600)
	return map[string]rendering.File{serving.File: file}, err
}
