// Command gpu-device-plugin offers a node's accelerators to the kubelet, one device for each PCI device that matches.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	configFile := flag.String("config", "/etc/gpu-device-plugin/config.json", "JSON file with the resources")
	pciRoots := flag.String("pci-root", "/etc/strata/pci/devices,/sys/bus/pci/devices",
		"directories of PCI devices, comma-separated; the first that is there counts")
	directory := flag.String("plugin-directory", deviceplugin.DevicePluginPath, "the kubelet's directory for device plugins")
	interval := flag.Duration("interval", 5*time.Second, "how often cards and the kubelet are looked at")
	flag.Parse()

	config, err := LoadConfig(*configFile)
	if err != nil {
		log.Error("bad configuration", "error", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var group sync.WaitGroup
	pciRoot, err := FirstDirectory(strings.Split(*pciRoots, ","))
	if err != nil {
		log.Error("no PCI devices", "error", err)
		os.Exit(2)
	}
	for _, resource := range config.Resources {
		plugin := NewPlugin(resource, pciRoot, *directory, *interval, log)
		group.Go(func() {
			if err := plugin.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				log.Error("ended", "resource", resource.Name, "error", err)
			}
		})
	}
	group.Wait()
}
