// Package registration tells kubelet of the driver on this machine, by a socket in the directory where kubelet looks for
// plugins (k8s.io/kubelet/pkg/apis/pluginregistration/v1). Whenever the socket is made anew, kubelet asks again.
package registration

import (
	"context"
	"sync"

	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Server answers kubelet.
type Server struct {
	registerapi.UnimplementedRegistrationServer
	// Driver is the driver's name, Socket where its node service listens.
	Driver, Socket string
	// Say writes a line for people.
	Say func(string)

	mu   sync.Mutex
	last string
}

// GetInfo returns where the driver is.
func (s *Server) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	// The version is that of the CSI specification, of which kubelet takes 1.x.
	return &registerapi.PluginInfo{Type: registerapi.CSIPlugin, Name: s.Driver, Endpoint: s.Socket, SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus is told what kubelet has made of it. Kubelet tries again by itself.
func (s *Server) NotifyRegistrationStatus(_ context.Context, r *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	line := "kubelet has registered the driver"
	if !r.GetPluginRegistered() {
		line = "kubelet does not register the driver: " + r.GetError()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if line != s.last {
		s.last = line
		s.Say(line)
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}
