package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kube-network-policies/pkg/api"
	"sigs.k8s.io/kube-network-policies/pkg/network"
)

func read(t *testing.T, content string) (hostServices, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "host-services")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return readHostServices(path)
}

func TestHostServicesAreForTheirNamespaces(t *testing.T) {
	services, err := read(t, "# managed\n10.0.0.1:5432 strata-system jupyterhub\n10.0.0.1:9100\n")
	if err != nil {
		t.Fatal(err)
	}
	pod := func(namespace string, labels map[string]string) *api.PodInfo {
		return &api.PodInfo{Namespace: &api.Namespace{Name: namespace, Labels: labels}}
	}
	own := map[string]string{hostServicesLabel: admitted}
	for name, test := range map[string]struct {
		source   *api.PodInfo
		address  string
		port     int
		protocol v1.Protocol
		want     api.Verdict
	}{
		"a namespace with a database":   {pod("jupyterhub", nil), "10.0.0.1", 5432, v1.ProtocolTCP, api.VerdictNext},
		"a namespace without policies":  {pod("default", nil), "10.0.0.1", 5432, v1.ProtocolTCP, api.VerdictDeny},
		"a namespace that has its name": {pod("jupyterhub2", nil), "10.0.0.1", 5432, v1.ProtocolTCP, api.VerdictDeny},
		"a namespace of the operator":   {pod("own", own), "10.0.0.1", 5432, v1.ProtocolTCP, api.VerdictNext},
		"another value of the label": {
			pod("own", map[string]string{hostServicesLabel: ""}), "10.0.0.1", 5432, v1.ProtocolTCP, api.VerdictDeny,
		},
		"a port for nobody":     {pod("jupyterhub", nil), "10.0.0.1", 9100, v1.ProtocolTCP, api.VerdictDeny},
		"a port for everybody":  {pod("default", nil), "10.0.0.1", 443, v1.ProtocolTCP, api.VerdictNext},
		"another host":          {pod("default", nil), "10.0.0.2", 5432, v1.ProtocolTCP, api.VerdictNext},
		"another protocol":      {pod("default", nil), "10.0.0.1", 5432, v1.ProtocolUDP, api.VerdictNext},
		"a pod that is unknown": {nil, "10.0.0.1", 5432, v1.ProtocolTCP, api.VerdictDeny},
	} {
		t.Run(name, func(t *testing.T) {
			packet := &network.Packet{DstIP: net.ParseIP(test.address), DstPort: test.port, Proto: test.protocol}
			got, err := services.EvaluateEgress(context.Background(), packet, test.source, nil)
			if err != nil || got != test.want {
				t.Errorf("got %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

func TestHostServicesThatDoNotParse(t *testing.T) {
	if _, err := read(t, "10.0.0.1 default\n"); err == nil {
		t.Error("an address without a port is accepted")
	}
	if _, err := readHostServices(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is missing is accepted")
	}
}
