package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"spore/agent/etcd/client"
	"spore/agent/vip"
	"spore/agent/vip/address"
	"spore/agent/vip/announce"
	"spore/agent/vip/holder"
	"spore/agent/vip/lock"
	"spore/agent/vip/ready"
)

const (
	// endpointKey is the key of etcd that the holder of the virtual address has. All keys of ours begin with /spore/.
	endpointKey = "/spore/control-plane-endpoint"
	// ownAPI is the API server of this very master; its certificate has the node's name.
	ownAPI = "https://127.0.0.1:6443/readyz"
	// hangs is how many leases may pass without a sign of life before systemd starts the program anew.
	hangs = 6
)

// endpointCommand holds the virtual address of the Kubernetes API when it is this master's turn. It asks its own etcd only: a
// master whose etcd does not work shall not lead clients to its API server.
func endpointCommand(ctx context.Context, m *machine, args []string) error {
	if len(args) > 0 {
		return usageError{"usage: spore-agent etcd endpoint"}
	}
	c, n, err := m.master()
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(c.Network.ControlPlaneEndpoint)
	if err != nil {
		return errors.New("this cluster has no virtual address; add network.controlPlaneEndpoint to cluster.yaml")
	}
	var own []netip.Addr
	for _, s := range n.IPs {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return fmt.Errorf("addresses of this node: %w", err)
		}
		own = append(own, a.Unmap())
	}
	authorities, err := m.part.Public("kubernetes-server.crt")
	if err != nil {
		return err
	}
	isReady, err := ready.Server(ownAPI, authorities, n.Name)
	if err != nil {
		return err
	}
	etcd, err := m.connect(c, client.Own)
	if err != nil {
		return err
	}
	defer etcd.Close()
	timing := vip.Times(c.Services.Kubernetes().Slow(), address.Lateness)
	m.notify(daemon.SdNotifyReady + "\n" + fmt.Sprintf("WATCHDOG_USEC=%d", (hangs*timing.Lease).Microseconds()))
	defer m.notify(daemon.SdNotifyStopping)
	return vip.Run(ctx, vip.Options{
		Address: ip.Unmap().String(), Node: n.Name, Timing: timing, Ready: isReady, Say: m.say,
		Lock:  vip.Etcd(&lock.Lock{Client: etcd, Key: endpointKey, Owner: n.Name, Lifetime: timing.Lease}),
		Card:  &vip.Interface{Address: ip.Unmap(), Own: own, Send: announce.Send},
		State: m.tellEndpoint,
		Alive: func() { m.notify(daemon.SdNotifyWatchdog) },
	})
}

// tellEndpoint leaves the state for those who ask the node, and for systemctl.
func (m *machine) tellEndpoint(s holder.State) {
	if err := holder.Write(m.root.At(holder.File), s, time.Now()); err != nil {
		m.say(err.Error())
	}
	m.notify("STATUS=" + strings.ReplaceAll(s.String(), "\n", " "))
}

func (m *machine) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.say(err.Error())
	}
}
