//! Statements on what renders show.

use crate::render::data::DataRow;
use crate::statement::statements;

statements! {
    fn render_data_find(id: i64) -> Option<DataRow> {
        "select id{::bigint} as id, coalesce(gfx_data{::text}, 'null') as gfx_data, gfx_key_id
         from render_queue where id = $1"
    }

    /// Locks those whose data, or a job made of it, is not under this key, by id.
    fn render_data_lock_others(key: &str, after: i64, limit: i64) -> Vec<DataRow> {
        "select id{::bigint} as id, coalesce(gfx_data{::text}, 'null') as gfx_data, gfx_key_id
         from render_queue q
         where id > $2
           and (
               gfx_key_id {is not} $1
               or exists (
                   select 1 from render_attempt a
                   where a.render_id = q.id
                     and a.document is not null
                     and a.document_key_id {is not} $1
               )
           )
         order by id limit $3 {for update}"
    }

    /// Whatever type an adopted table has, the record finds it.
    fn render_data_save(id: i64, text: &str, key: &str) -> () {
        postgres {
            "update render_queue
             set gfx_data = (
                     select r.gfx_data
                     from jsonb_populate_record(null::render_queue, jsonb_build_object('gfx_data', $2::jsonb)) as r
                 ),
                 gfx_key_id = $3, revision = revision + 1
             where id = $1"
        }
        sqlite {
            "update render_queue set gfx_data = $2, gfx_key_id = $3, revision = revision + 1 where id = $1"
        }
    }
}
