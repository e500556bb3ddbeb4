select coalesce((select storage_counts.bytes from storage_counts where storage_counts.tenant = $1), 0)
