package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

var v100 = Match{Vendor: "10de", Device: "1db4"}

func putCard(t *testing.T, root, address, vendor, device, numa string) {
	t.Helper()
	directory := filepath.Join(root, address)
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"vendor": vendor, "device": device, "numa_node": numa} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func TestFindTakesOnlyWhatMatches(t *testing.T) {
	root := t.TempDir()
	putCard(t, root, "0000:3b:00.0", "0x10de", "0x1db4", "1")
	putCard(t, root, "0000:5e:00.0", "0x10DE", "0x1DB4", "-1")
	putCard(t, root, "0000:00:1f.0", "0x8086", "0xa143", "0")
	putCard(t, root, "0000:af:00.0", "0x10de", "0x1eb8", "0")
	if err := os.Mkdir(filepath.Join(root, "half"), 0o755); err != nil {
		t.Fatal(err)
	}
	cards, err := Find(root, []Match{v100})
	if err != nil {
		t.Fatal(err)
	}
	if len(cards) != 2 || cards[0] != (Card{"0000:3b:00.0", 1}) || cards[1] != (Card{"0000:5e:00.0", -1}) {
		t.Fatalf("found %+v", cards)
	}
}

func TestFindRefusesWhatIsNoIdentifier(t *testing.T) {
	root := t.TempDir()
	putCard(t, root, "0000:3b:00.0", "zebra", "0x1db4", "0")
	if _, err := Find(root, []Match{v100}); err == nil || !strings.Contains(err.Error(), "zebra") {
		t.Fatalf("error %v", err)
	}
	if _, err := Find(filepath.Join(root, "missing"), []Match{v100}); err == nil {
		t.Fatal("a missing root is no error")
	}
}

func TestFirstDirectory(t *testing.T) {
	there := t.TempDir()
	if got, err := FirstDirectory([]string{filepath.Join(there, "missing"), there, "/"}); err != nil || got != there {
		t.Errorf("got %q, error %v", got, err)
	}
	if _, err := FirstDirectory([]string{filepath.Join(there, "missing")}); err == nil {
		t.Error("no directory is no error")
	}
}

func TestMergeKeepsVanishedCardsAsUnhealthy(t *testing.T) {
	first := Merge(nil, []Card{{"b", 0}, {"a", -1}})
	if len(first) != 2 || first[0].ID != "a" || first[0].Topology != nil || first[1].Topology.Nodes[0].ID != 0 {
		t.Fatalf("first %+v", first)
	}
	second := Merge(first, []Card{{"b", 0}})
	if second[0].Health != deviceplugin.Unhealthy || second[1].Health != deviceplugin.Healthy {
		t.Fatalf("second %+v", second)
	}
	third := Merge(second, []Card{{"a", -1}, {"b", 0}})
	if third[0].Health != deviceplugin.Healthy {
		t.Fatalf("third %+v", third)
	}
}

func TestLoadConfigNamesKeyAndValue(t *testing.T) {
	good := `{"resources":[{"name":"nvidia.com/gpu","environment":"NVIDIA_VISIBLE_DEVICES","devices":[{"vendor":"10de","device":"1db4"}]}]}`
	cases := map[string]string{
		`{}`:              "resources",
		`{"resource":[]}`: "unknown field",
		strings.Replace(good, "nvidia.com/gpu", "gpu", 1):         `resources[0].name: "gpu"`,
		strings.Replace(good, "1db4", "0x1db4", 1):                "resources[0].devices[0]",
		strings.Replace(good, "NVIDIA_VISIBLE_DEVICES", "a-b", 1): "resources[0].environment",
	}
	file := filepath.Join(t.TempDir(), "config.json")
	for content, want := range cases {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadConfig(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", content, err, want)
		}
	}
	if err := os.WriteFile(file, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if config, err := LoadConfig(file); err != nil || config.Resources[0].Devices[0] != v100 {
		t.Fatalf("config %+v, error %v", config, err)
	}
}

// kubelet answers registrations as the real one does.
type kubelet struct {
	deviceplugin.UnimplementedRegistrationServer
	registrations chan *deviceplugin.RegisterRequest
	server        *grpc.Server
}

func startKubelet(t *testing.T, directory string) *kubelet {
	t.Helper()
	socket := filepath.Join(directory, "kubelet.sock")
	os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{registrations: make(chan *deviceplugin.RegisterRequest, 8), server: grpc.NewServer()}
	deviceplugin.RegisterRegistrationServer(k.server, k)
	go k.server.Serve(listener)
	t.Cleanup(k.server.Stop)
	return k
}

func (k *kubelet) Register(_ context.Context, request *deviceplugin.RegisterRequest) (*deviceplugin.Empty, error) {
	k.registrations <- request
	return &deviceplugin.Empty{}, nil
}

func (k *kubelet) wait(t *testing.T) *deviceplugin.RegisterRequest {
	t.Helper()
	select {
	case request := <-k.registrations:
		return request
	case <-time.After(5 * time.Second):
		t.Fatal("no registration")
		return nil
	}
}

func TestPluginAgainstAKubelet(t *testing.T) {
	root, directory := t.TempDir(), t.TempDir()
	putCard(t, root, "0000:3b:00.0", "0x10de", "0x1db4", "1")
	putCard(t, root, "0000:5e:00.0", "0x10de", "0x1db4", "0")
	first := startKubelet(t, directory)
	resource := Resource{Name: "nvidia.com/gpu", Environment: "NVIDIA_VISIBLE_DEVICES", Devices: []Match{v100}}
	plugin := NewPlugin(resource, root, directory, 20*time.Millisecond, quiet())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- plugin.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })

	request := first.wait(t)
	if request.ResourceName != "nvidia.com/gpu" || request.Version != deviceplugin.Version {
		t.Fatalf("registration %+v", request)
	}
	connection, err := grpc.NewClient("unix://"+filepath.Join(directory, request.Endpoint),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	client := deviceplugin.NewDevicePluginClient(connection)
	stream, err := client.ListAndWatch(ctx, &deviceplugin.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := stream.Recv()
	if err != nil || len(list.Devices) != 2 || list.Devices[0].Topology.Nodes[0].ID != 1 {
		t.Fatalf("list %+v, error %v", list, err)
	}

	answer, err := client.Allocate(ctx, &deviceplugin.AllocateRequest{ContainerRequests: []*deviceplugin.ContainerAllocateRequest{
		{DevicesIds: []string{"0000:5e:00.0", "0000:3b:00.0"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	container := answer.ContainerResponses[0]
	if got := container.Envs["NVIDIA_VISIBLE_DEVICES"]; got != "0000:3b:00.0,0000:5e:00.0" {
		t.Errorf("variable %q", got)
	}
	if len(container.Mounts) != 2 || !container.Mounts[0].ReadOnly || container.Mounts[0].HostPath != filepath.Join(root, "0000:3b:00.0") {
		t.Errorf("mounts %+v", container.Mounts)
	}

	if err := os.RemoveAll(filepath.Join(root, "0000:5e:00.0")); err != nil {
		t.Fatal(err)
	}
	if list, err = stream.Recv(); err != nil || list.Devices[1].Health != deviceplugin.Unhealthy {
		t.Fatalf("after removal: %+v, error %v", list, err)
	}
	if _, err := client.Allocate(ctx, &deviceplugin.AllocateRequest{ContainerRequests: []*deviceplugin.ContainerAllocateRequest{
		{DevicesIds: []string{"0000:5e:00.0"}},
	}}); err == nil {
		t.Error("a card that is gone was given away")
	}

	first.server.Stop()
	second := startKubelet(t, directory)
	if request := second.wait(t); request.ResourceName != "nvidia.com/gpu" {
		t.Fatalf("second registration %+v", request)
	}
}
