// Package endpoint has this master hold the virtual address of the Kubernetes API when it is its turn. Package vip has
// the rules, package lock the lock in etcd.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"spore/services/kubernetes"
	"spore/services/kubernetes/etcd/client"
	"spore/services/kubernetes/etcd/master"
	"spore/services/kubernetes/vip"
	"spore/services/kubernetes/vip/address"
	"spore/services/kubernetes/vip/announce"
	"spore/services/kubernetes/vip/holder"
	"spore/services/kubernetes/vip/lock"
	"spore/services/kubernetes/vip/ready"
)

const (
	// key is the key of etcd that the holder of the virtual address has. All keys of ours begin with /spore/.
	key = "/spore/control-plane-endpoint"
	// ownAPI is the API server of this very master; its certificate has the node's name.
	ownAPI = "https://127.0.0.1:6443/readyz"
	// hangs is how many leases may pass without a sign of life before systemd starts the program anew.
	hangs = 6
)

// Hold holds the virtual address of the Kubernetes API when it is this master's turn. It asks its own etcd only: a
// master whose etcd does not work shall not lead clients to its API server.
func Hold(ctx context.Context, m *master.Machine) error {
	c, n, err := m.Master()
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
	authorities, err := m.Part.Public("kubernetes-server.crt")
	if err != nil {
		return err
	}
	isReady, err := ready.Server(ownAPI, authorities, n.Name)
	if err != nil {
		return err
	}
	etcd, err := m.Connect(c, client.Own)
	if err != nil {
		return err
	}
	defer etcd.Close()
	timing := vip.Times(kubernetes.Of(c.Services).Slow(), address.Lateness)
	notify(m, daemon.SdNotifyReady+"\n"+fmt.Sprintf("WATCHDOG_USEC=%d", (hangs*timing.Lease).Microseconds()))
	defer notify(m, daemon.SdNotifyStopping)
	return vip.Run(ctx, vip.Options{
		Address: ip.Unmap().String(), Node: n.Name, Timing: timing, Ready: isReady, Say: m.Say,
		Lock:  vip.Etcd(&lock.Lock{Client: etcd, Key: key, Owner: n.Name, Lifetime: timing.Lease}),
		Card:  &vip.Interface{Address: ip.Unmap(), Own: own, Send: announce.Send},
		State: func(s holder.State) { tellEndpoint(m, s) },
		Alive: func() { notify(m, daemon.SdNotifyWatchdog) },
	})
}

// tellEndpoint leaves the state for those who ask the node, and for systemctl.
func tellEndpoint(m *master.Machine, s holder.State) {
	if err := holder.Write(m.Root.At(holder.File), s, time.Now()); err != nil {
		m.Say(err.Error())
	}
	m.TellStatus(s.String())
}

func notify(m *master.Machine, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.Say(err.Error())
	}
}
